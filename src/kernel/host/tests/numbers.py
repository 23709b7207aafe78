for a in (7, -7, 7.5, -7.5):
    for b in (2, -2, 2.5, -0.5):
        print(a, b, a // b, a % b, divmod(a, b), a / b, a * b, a + b, a - b)
print(2 ** 10, 2 ** -1, 2.0 ** 3, (-8) ** (1/3), 0 ** 0, 10 ** 18, (-2) ** 3, 2 ** 0.5)
print(1 << 10, -1 >> 3, 5 & 3, 5 | 3, 5 ^ 3, ~5, -5 >> 1, True + True, True & False, True | 1)
print(int("42"), int("-0x1f", 16), int("0b101", 0), int(" 7 "), int("1_000"), int(3.9), int(-3.9), int(True))
print(float("1.5"), float("inf"), float("-nan"), float(" 1e3 "), float(3), complex("1+2j"), complex(1, 2), complex(3))
print(abs(-3), abs(-2.5), abs(3 + 4j), min(3, 1, 2), max([1, 5, 2]), min("b", "a"), max((1, 2), (1, 3)), sum([1, 2.5]), sum(range(10)), sum([], 5))
print((1 + 2j) * (3 - 1j), (1 + 2j) / (3 - 1j), (1 + 2j) ** 2, (2 + 0j) ** 0.5, -(1 + 2j), (1 + 2j).conjugate(), (1+2j).real, 1j * 1j)
print(1 == 1.0, 1 == True, 0.1 + 0.2 == 0.3, 2 ** 53 + 1 == 2.0 ** 53, 1 < 1.5 < 2, 3 > 2 > 2, 1 != 2, "a" < "b", (1, 2) < (1, 3), [1] == [1], None is None)
print(bin(10), hex(255), oct(8), bin(-5), (5).bit_length(), (0.5).is_integer(), (2.0).is_integer(), (10).bit_count())
print(hash(1), hash(-1), hash(2**61), pow(3, 4), pow(3, 4, 5), pow(2, -1), 7 .__class__ if False else 7)
import math
print(math.sqrt(2), math.pi, math.e, math.floor(-2.5), math.ceil(2.1), math.trunc(-2.7), math.fabs(-3), math.gcd(12, 18), math.lcm(4, 6), math.factorial(10), math.comb(10, 3), math.perm(5, 2))
print(math.hypot(3, 4), math.atan2(1, -1), math.log(10), math.log(8, 2), math.log2(8), math.log10(1000), math.exp(1), math.sin(1), math.cos(1), math.tan(1), math.isclose(0.1 + 0.2, 0.3))
print(math.inf, -math.inf, math.nan, math.isnan(math.nan), math.isinf(math.inf), math.isfinite(1.0), math.copysign(1, -0.0), math.fmod(-7, 3), math.modf(2.5), math.frexp(8.0), math.ldexp(0.5, 4), math.fsum([0.1] * 10), math.prod([1, 2, 3]), math.isqrt(17))
print(math.degrees(math.pi), math.radians(180), math.erf(0.5), math.gamma(5), math.expm1(1e-5), math.log1p(1e-5), math.sinh(1), math.asinh(1), math.acosh(2), math.atanh(0.5))
for f in (lambda: math.sqrt(-1), lambda: math.log(0), lambda: 1 / 0, lambda: 1.0 / 0, lambda: 1 // 0, lambda: 1 % 0, lambda: 1.0 % 0, lambda: 1.0 // 0, lambda: 0 ** -1, lambda: int("x"), lambda: float("y"), lambda: [][1], lambda: {}["k"], lambda: (1,)[5], lambda: "a" + 1, lambda: 1 + "a", lambda: len(5), lambda: undefined_name, lambda: None.x, lambda: [1].y, lambda: int(float("nan")), lambda: int(float("inf")), lambda: math.exp(1000), lambda: divmod(1, 0), lambda: divmod(1.0, 0), lambda: [1, 2] + (3,), lambda: "a" * "b", lambda: -"a", lambda: 1 < "a", lambda: max([]), lambda: [].pop(), lambda: next(iter([])), lambda: list(5), lambda: {}[[]], lambda: "abc"["x"], lambda: range(0, 1, 0), lambda: (lambda x: x)(), lambda: (lambda x: x)(1, 2), lambda: (lambda x: x)(y=1), lambda: int(None), lambda: float([]), lambda: round("a"), lambda: sorted([1, "a"]), lambda: 5(), lambda: "x".foo, lambda: [1, 2].index(3), lambda: math.factorial(-1), lambda: chr(-1), lambda: ord("ab"), lambda: 2 ** "a", lambda: 3 @ 4, lambda: not_there.x, lambda: "%d" % "a", lambda: "{}".format(), lambda: [1][1.5], lambda: "a" in 5, lambda: 1 << -1):
    try:
        print(f())
    except Exception as e:
        print(type(e).__name__, "|", e)
