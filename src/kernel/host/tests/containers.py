a = [3, 1, 2]
a.append(5); a.extend([7, 8]); a.insert(0, 9); print(a, a.pop(), a.pop(0), a, a.index(5), a.count(1), len(a))
a.sort(); print(a, sorted(a, reverse=True), sorted(["bb", "a", "ccc"], key=len), list(reversed(a)), a[::-1], a[1:3], a[-2:], a[::2])
a.remove(5); a.reverse(); print(a, a + [1], a * 2, 3 in a, 99 not in a, a == [7, 3, 2, 1])
a[1:3] = [10, 20, 30]; print(a); del a[0]; print(a); a[::2] = [0, 0]; print(a); del a[1:]; print(a)
d = {"x": 1, "y": 2}
d["z"] = 3; print(d, d.get("q"), d.get("q", 0), "x" in d, len(d), list(d), list(d.keys()), list(d.values()), list(d.items()), d.pop("x"), d)
d.update({"y": 5, "w": 6}); d.setdefault("v", []).append(1); print(d, d.popitem(), sorted(d), dict(a=1, b=2), dict([(1, 2)]), {**d, "k": 0}, d.copy() == d)
for k, v in d.items():
    print(k, v)
print(d.keys(), d.values(), d.items(), {1: "a", 2.5: (1,), None: True}, {True: 1, 1: 2, 1.0: 3})
t = (1, 2, 3)
x, *rest = t; print(x, rest, t + (4,), t * 2, t[1:], t.index(2), t.count(1), (), (1,), tuple([1, 2]), t[::-1])
(p, q), r = (1, 2), 3; print(p, q, r); p, q = q, p; print(p, q); [u, v] = "ab"; print(u, v); first, *mid, last = range(6); print(first, mid, last)
print([i * i for i in range(5)], [i for i in range(10) if i % 2 if i > 3], [(i, j) for i in range(2) for j in "ab"], {i: i * i for i in range(3)}, [[j for j in range(i)] for i in range(4)])
print(sum(i for i in range(5)), any(i > 3 for i in range(5)), all([]), list(map(str, [1, 2])), list(filter(None, [0, 1, 2])), list(zip("ab", [1, 2, 3])), list(enumerate("ab", 1)), dict(zip("ab", (1, 2))))
g = (i * 2 for i in range(3)); print(next(g), list(g), next(g, "end")); print(list(range(5, 0, -2)), range(5), range(1, 10, 3), len(range(10)), range(5)[2], 3 in range(5), list(range(3))[1:])
s = {1, 2, 3}; print(len(s), 2 in s, sorted(s | {5}), sorted(s & {1, 9}), sorted(s - {1}), sorted(s ^ {3, 4}), s == {3, 2, 1}, set(), {7}, s <= {1, 2, 3, 4}); s.add(9); s.discard(1); print(sorted(s))
txt = "Hello, World"
print(txt.upper(), txt.lower(), txt.swapcase(), txt.title(), txt.split(","), txt.split(), "a b  c".split(), "a,b,c".split(",", 1), txt.replace("o", "0"), txt.find("o"), txt.rfind("o"), txt.count("l"))
print(txt.startswith("He"), txt.endswith(("x", "ld")), "  x ".strip() + "|", "xxaxx".strip("x"), "ab".center(6, "*"), "ab".ljust(4) + "|", "ab".rjust(4), "7".zfill(3), "-7".zfill(4), "-".join(["a", "b"]), "a\nb\n".splitlines(), "abc".partition("b"), "a.b.c".rpartition("."))
print("abc"[1], "abc"[-1], "abc"[::-1], "abc" * 2, "b" in "abc", "abc".isalpha(), "12".isdigit(), "a1".isalnum(), " ".isspace(), "abc" < "abd", ord("a"), chr(98), "abc".index("c"), "aXbX".rsplit("X", 1), "abc".removeprefix("a"), "Abc".capitalize())
nested = [1, [2, [3]]]; b = nested; c = nested[:]; b.append(4); print(nested, c, b is nested, c is nested, nested[1] is c[1]); l = [1]; l.append(l); print(l)
print(min([3, 1], default=0), min([], default=0), max("abc", key=lambda c: -ord(c)), max({"a": 3, "b": 5}, key=lambda k: {"a": 3, "b": 5}[k]), sorted({"b": 1, "a": 2}.items(), key=lambda kv: kv[1]), sorted([(2, "a"), (1, "b")]), list(reversed("abc")))
i = 10
while i > 0:
    i -= 3
    if i == 4: continue
    if i < 2: break
else:
    print("no")
print(i); z = [0] * 3; z[1] += 5; print(z, z[-1]); m = [[0] * 2 for _ in range(2)]; m[0][1] = 9; print(m); w = (n := 5) + n; print(w, n)
print(1 if [] else 2, [] or "x", 0 and 1, not [], None or 0, [1] and [2], 5 > 3 and "y")
print(isinstance(1, int), isinstance(True, int), isinstance(1.0, (int, float)), isinstance("a", str), type(1) is int, type("a").__name__, callable(len), isinstance([], list), type(1.5), type(None), hasattr("a", "upper"), getattr("a", "nope", 3))
print("a", 1, 2.5, sep="-", end="!\n"); print(); print("x", end=""); print("y"); print(*[1, 2, 3]); print(*"ab", sep=","); print(b"ab\x00", b"x"[0], "é".encode())
