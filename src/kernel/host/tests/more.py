# things programs of this kind do in passing
import sys, os, math
from functools import partial, reduce
import numpy as np
def show(tag, *values, **opts):
    sep = opts.get("sep", " ")
    print(tag + ":", *values, sep=sep)
show("a", 1, 2.5, [3]); show("b", "x", "y", sep="/")
table = [("int", 1), ("float", 2.5), ("str", "s"), ("none", None)]
for i, (name, value) in enumerate(table):
    print(f"{i:>2} {name:<8}|{value!s:>6}|")
print("-" * 20, "=" * 3 + ">", sep="\n")
rows = [[i * j for j in range(1, 4)] for i in range(1, 4)]
for row in rows: print(" ".join(f"{v:3d}" for v in row))
print("\n".join(" ".join(str(c) for c in r) for r in rows))
counts = {}
for ch in "mississippi": counts[ch] = counts.get(ch, 0) + 1
print(counts, sorted(counts, key=lambda c: (-counts[c], c)), max(counts, key=counts.get))
words = "the quick brown fox".split(); print({w: len(w) for w in words}, [w[0].upper() + w[1:] for w in words], " ".join(reversed(words)))
print(os.environ.get("SURELY_NOT_SET_X", "default"), os.getenv("SURELY_NOT_SET_X"), len(sys.argv), sys.maxsize, sys.byteorder)
print(*map(lambda p: p[0] * p[1], zip([1, 2], [3, 4])), list(map(partial(pow, 2), range(5))), reduce(lambda a, b: a + b, "abc"))
try:
    raise ValueError("bad", 3)
except (TypeError, ValueError) as err:
    print(err, err.args, type(err) is ValueError)
def gen_sum(n): return sum(x for x in range(n) if x % 3 == 0 or x % 5 == 0)
print(gen_sum(1000), any(x == 3 for x in (1, 2, 3)), all(x for x in [1, 1]), sum(1 for _ in "abc"), max((x, -x) for x in range(3)))
a = np.array([[3, 1, 2], [9, 7, 8]]); 
for r in a: print(r, r.sum(), *r)
print(a.sum(), a[0].tolist(), list(a[1]), f"{a[0, 0]} {a[1]} {a.mean():.3f} {a.max():>4d} {a[0,0]:03d}", str(a[0]), "%d %.1f" % (a[0, 1], a[1, 2]))
print("shape %s size %d" % (a.shape, a.size), a.dtype, "{:.2f}".format(a.std()), "{}".format(a[0]), round(a.mean(), 2), round(float(a.mean()), 1), int(a.sum()), float(a[0, 0]), abs(a - 5).max())
x = np.float64(2.0) / 3; print(x, f"{x:.4f}", round(x, 3), repr(round(x, 3)), [round(v, 2) for v in np.array([1.234, 5.678])], x > 0.5, not x, x == 2 / 3, (x, 1), {"k": x}, str(x), "%.3f" % x, np.round(x, 2), math.floor(x), min(x, 1), max(np.int64(3), 2), sum(np.array([1, 2, 3])), sum([np.float64(0.5)] * 3))
if a.any() and not (a > 10).any(): print("ok")
b = a.copy(); b[b > 5] = 0; print(b, (a == b).all(), np.array_equal(a, b), a.shape == b.shape, len(a), a.ndim)
b += 1; b *= 2; b //= 3; b -= 1; print(b); c = b * 1.0; c /= 2; c **= 2; print(c, c.dtype)
total = 0
for v in np.linspace(0, 1, 3): total += v
print(total, type(total).__name__)
m = {1: "one", "two": 2, (3, 4): [5]}; print(m, m[(3, 4)], 1 in m, list(m.items())[0]); del m[1]; print(m)
s = "abc"; s += "d"; print(s, s * 2, s[-2:], s.find("z"), s.upper().lower() == s, s.replace("a", "").strip("d"), s > "abb", len(s), "".join(sorted("hello")), "a-b_c".replace("-", "_").split("_"))
print(1e3, 1e-3, 1.5e300, -1e-300, 0.1 + 0.7, 1 / 7, 100 * 1.1, 3.0, 1e21, 123456789.123, 5e-5, 0.0001)
print(True, False, None, ..., NotImplemented, [None], (True,), {"a": None}, [[]], [()], {}, [{}], "", [""], ["a\n"])
print(10 // 3, -10 // 3, 10 % -3, 2 ** 63, -2 ** 63, 10 ** 20, 1 << 70, (1 << 64) - 1, 0xFF, 0o17, 0b11, 1_000_000, 5 // 2.0, 7 % 2.5)
while True:
    total += 1
    if total > 5: break
print(total); assert total > 5, "no"; del total
try:
    print(total)
except NameError as e:
    print(e)
lst = list(range(10)); print(lst[2:5], lst[-3:], lst[::3], lst[5:2:-1], lst[:0], lst[100:]); lst[2:4] = []; print(lst, sum(lst) / len(lst), sorted(lst, key=lambda v: -v)[:3]); 
p, *q = lst; print(p, q); (aa, bb), cc = (1, 2), 3; print(aa, bb, cc); i = j = 5; i += 1; print(i, j)
print(np.arange(3) * 2.5, np.ones(2, dtype=bool), np.zeros(2, np.int32), np.full((2, 2), 3.5), np.array([1, 2, 3])[::-1], np.arange(6).reshape(2, -1), np.concatenate([np.zeros(1), np.ones(2)]))
print(np.sqrt(2), np.sin(0.0), np.exp(0), np.pi, np.abs(-3), np.sum([1, 2]), np.mean([1, 2]), np.max([1, 5]), np.floor(2.7), np.sqrt(np.int64(9)), np.power(2, 3), np.add(1, 2), np.minimum(1, 2), np.int32(5), np.float32(2.5), np.bool_(1), np.isnan(np.nan), np.inf > 1)
