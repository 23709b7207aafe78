# rarely used corners
print("%-10s|%+05d|% d|%5.1f%%" % ("ab", 7, 3, 99.5), "%s" % (1,), "%s" % [1], "%r" % "x", "%05.1f" % -2.345, "%x" % 255, "%o" % 8, "%e" % 12345.678, "%g" % 1e-7, "%i" % 3.9)
print("{:08.3f}|{:+}|{:,}|{:>8}|{:^8}|{:<8}|{!r}".format(3.14159, 5, 1234567, "ab", "cd", "ef", "q"), "{0:{1}}".format(5, 4), "{:{}}".format("a", ">3"), "{:c}".format(65), "{:%}".format(0.5), "{:e}".format(1.5), "{:n}".format(10), "{:.3}".format("abcdef"), "{x[a]} {y.real}".format(x={"a": 1}, y=2j))
print(f"{'a':>{3 + 2}}|{3.0:{'.2f'}}|{10:#06x}|{-5:=+6d}|{1e-10:.3e}|{5:b}|{255:X}|{1234.5:_}|{0.1 + 0.2:.17g}|{100000000.0}|{1e16:.0f}")
a, b, *c = "hello"; print(a, b, c); x = y = []; x.append(1); print(y); (m, n), o = [1, 2], 3; print(m, n, o)
d = dict(zip("abc", range(3))); print({v: k for k, v in d.items()}, d | {"z": 9}, list(d)[::-1], sorted(d, reverse=True), [*d], {**d}, len(d), "a" in d, d.keys() & {"a"} if False else "", max(d, key=d.get), sum(d.values()))
print([i for i in range(20) if i % 3 == 0 and i % 2], [(i, j) for i in range(3) for j in range(i)], [x if x > 1 else -x for x in range(3)], [[1, 2], [3, 4]][1][0], [0] * 2 + [1], list("ab") * 2, [*"ab", 1])
s = "a,b;c"; print(s.replace(",", ";").split(";"), s.partition(","), s.translate if False else "", s.upper().center(11, "*"), s[::-1].find("b"), "x".join("abc"), "abc".zfill(5), "ab\tc".expandtabs(4), "line1\nline2".splitlines(), "Title Case".istitle() if False else "", "a" < "B", "ß".upper(), "é".isalpha(), "١".isdigit(), "x=%s" % "y")
print(1_000.5, 1e5, 1E-5, .5, 5., 0x1F, 0b101, 0o17, 1j, 1.5e3j, -0.0, 1e400, -1e400, 3 .real, 3.0.is_integer(), (3).bit_length(), 10 .__class__ if False else "")
print(not True == False, 1 < 2 == 2, (1 < 2) == True, 1 if 0 else 2 if 0 else 3, 1 and 2 or 3, None or [], [] and 1, "" or 0 or None, 5 & 6 == 6, -2 ** 2, 2 ** 3 ** 2, -7 // 2, -7 % 3, 7 // -2, 7 % -3, ~0, not 0, 3 - -2, +-+1)
try:
    [][0]
except IndexError as e: print(repr(e))
try:
    {}["a"]
except KeyError as e: print(repr(e), e)
try:
    raise ValueError
except ValueError as e: print(repr(e), str(e) == "", e.args)
try:
    raise ValueError("a") from TypeError("b")
except ValueError as e: print(e, repr(e.__cause__))
class E(Exception):
    def __str__(self): return "custom"
try:
    raise E(1, 2)
except Exception as e: print(e, e.args, isinstance(e, E), repr(e))
def f(x, /, y, *, z=1): return x, y, z
print(f(1, 2), f(1, y=3, z=4))
for bad in (lambda: f(x=1, y=2), lambda: f(1, 2, 3), lambda: f(1), lambda: f(1, 2, q=3), lambda: f(), lambda: f(1, 2, y=3), lambda: print(sep=1), lambda: print(1, foo=2) if False else f(), lambda: int("1", 40), lambda: "a".join([1]), lambda: [1, 2, 3].remove(9), lambda: (1, 2) < (1, "a"), lambda: {}.pop("x"), lambda: "abc".index("z"), lambda: float("1.2.3"), lambda: [3, "a"].sort(), lambda: sum(["a"]), lambda: zip([1], strict=True) and list(zip([1], [1, 2], strict=True)), lambda: iter(5), lambda: next([]), lambda: len(x for x in []), lambda: isinstance(1, 2), lambda: abs("a"), lambda: round(1.5, "a"), lambda: chr("a"), lambda: [1][None], lambda: "a"[1.0], lambda: (1, 2)["a"], lambda: None(), lambda: None + 1, lambda: [] + (), lambda: {} + {}, lambda: 1 in 2, lambda: f.nope, lambda: print.nope if False else f.zzz, lambda: min(1), lambda: range("a"), lambda: range(), lambda: slice(), lambda: bytes([300]), lambda: divmod("a", 1), lambda: -[], lambda: [1, 2][5:1:0], lambda: list(range(3))[::0], lambda: int([]), lambda: {[]: 1}, lambda: {(1, []): 2}, lambda: "%d" % None, lambda: "%s %s" % 1, lambda: "%s" % (1, 2), lambda: "{}{}".format(1), lambda: "{a}".format(), lambda: f"{1:zz}", lambda: f"{'a':d}", lambda: f"{1.5:d}", lambda: f"{1:s}", lambda: f"{None:>5}", lambda: f"{[1]:>5}", lambda: int("12x"), lambda: int(""), lambda: float(""), lambda: complex("x"), lambda: ord(""), lambda: [].index(1), lambda: (1,).index(2), lambda: "a" - "b", lambda: "a" * 1.5, lambda: [1] * "a", lambda: 1 << "a", lambda: 1.5 >> 1, lambda: 1.5 & 1, lambda: 2 ** None, lambda: not_defined, lambda: __import__ if False else undefined2):
    try:
        print("no error", bad())
    except Exception as e:
        print(type(e).__name__, "|", e)
