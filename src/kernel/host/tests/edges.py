import numpy as np
def shadow():
    x = 1
    y = [x for x in range(3)] + [x * k for k in range(2) for x in (5,)]
    z = {x: [x for x in "ab"] for x in range(2)}
    g = list(x for x in range(2))
    return x, y, z, g
print(shadow())
def capture():
    n = 10
    fs = [lambda: (n, i) for i in range(2)]
    n = 20
    return [f() for f in fs], sum(n for _ in range(3)), [[n + j for j in range(2)] for _ in range(2)]
print(capture())
a = [1]; a.append(a); b = [1]; b.append(b)
try:
    print(a == b)
except RecursionError as e:
    print(e)
x = np.arange(1, 2001) * 0.1
print(x.sum(), x[:1000].sum(), x[:7].sum(), x[:130].sum(), x[::3].sum(), x.reshape(40, 50).sum(), x.reshape(40, 50).sum(axis=0)[:3], x.reshape(40, 50).sum(axis=1)[:3], x.mean(), x.std(), x.var(), np.sum(x, dtype=np.float64))
y = x.astype(np.float32); print(y.sum(), y[:1000].sum(), y.mean(), y.reshape(40, 50).sum(axis=1)[:3])
for p in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, np.complex128, np.bool_):
    print(p.__name__, *[(np.zeros(1, p) + np.zeros(1, q)).dtype for q in (np.int8, np.uint16, np.int32, np.uint64, np.float32, np.bool_)], (np.ones(1, p) + 1).dtype, (np.ones(1, p) * 1.5).dtype, (np.ones(1, p) / 2).dtype, np.ones(3, p).sum().dtype, np.ones(3, p).mean().dtype, type(p(1) + 1).__name__, type(p(1) * 1.5).__name__)
m = np.arange(24).reshape(2, 3, 4)
print(m.sum(axis=1), m.max(axis=2), m[:, [0, 2]], m[[0, 1], [1, 2]], m[m % 5 == 0], m[..., ::-1][0, 0], m.transpose(2, 0, 1).shape, m.swapaxes(0, 2)[1], m[:, None].shape, m[1, ..., 2], m[[True, False]], m[:, :, [0]].shape, m[0][:, [1, 1]], sep="\n")
m[0, :, 1] = [7, 8, 9]; m[1] = -1; m[:, 0, [0, 3]] = 50; m[m == -1] = 0; print(m)
w = np.arange(10); w[2:5] = w[5:8]; w[::2] += 100; v = w[3:]; v[0] = -9; print(w, v, w[w > 100], w[[-1, 0]], w[np.array([], dtype=int)])
print(np.arange(5)[::-1].copy(), np.arange(6).reshape(2, 3).T.copy(), np.arange(6).reshape(2, 3).T.reshape(-1), np.arange(6).reshape(2, 3).T.ravel(), np.array([[1, 2], [3, 4]]) @ np.array([1, 1]), np.array([[1, 2], [3, 4]]).dot(np.array([[0, 1], [1, 0]])))
t = (1, [2, 3]); t[1].append(4); print(t); u = {"a": [1]}; u["a"] += [2]; print(u); k = [[]] * 2; k[0].append(1); print(k)
def defaults(a, b=[]):
    b.append(a); return b
print(defaults(1), defaults(2), defaults(3, []))
print([*range(3), *"ab"], (*[1], 2), {**{"a": 1}, "b": 2}, [x for x in [1, 2, 3] if x != 2], "%s %s" % ("a", "b"), f"{'x' if True else 'y'}", f"{[i for i in range(3)]}", f"{ {'k': 1}['k'] }")
i = 0
while i < 3:
    i += 1
    for j in range(3):
        if j == i: break
    else:
        print("no break", i)
        continue
    print("break", i, j)
def outer():
    total = 0
    def add(n):
        nonlocal total
        total += n
        def inner(): return total * 2
        return inner
    f = add(5); add(1)
    return f(), total
print(outer()); print((lambda a, *b, c=3, **d: (a, b, c, d))(1, 2, x=4)); print((lambda: (yield_ := 5) + yield_)())
class Base:
    kind = "base"
    def who(self): return self.kind + "/" + type(self).__name__
    def __str__(self): return "str:" + self.who()
class Mid(Base):
    kind = "mid"
class Leaf(Mid):
    def who(self): return "leaf>" + super().who()
    def __bool__(self): return False
    def __hash__(self): return 1
print(Base().who(), Mid().who(), Leaf().who(), str(Leaf()), f"{Leaf()}", bool(Leaf()), "t" if Leaf() else "f", isinstance(Leaf(), Base), Leaf.kind, Leaf.__name__)
