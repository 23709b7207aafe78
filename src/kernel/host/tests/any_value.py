# pseudo-random values through every format
import numpy as np
s = 12345
def rnd():
    global s
    s = (s * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    return s >> 33
def value():
    k = rnd() % 6
    m = (rnd() % 2000001 - 1000000) / (10 ** (rnd() % 7))
    if k == 0: return float(rnd() % 100 - 50)
    if k == 1: return m * 10.0 ** (rnd() % 30 - 15)
    if k == 2: return m
    if k == 3: return 1.0 / (rnd() % 997 + 1)
    if k == 4: return (rnd() % 1000) / 8
    return m * 10.0 ** (rnd() % 6 - 3)
specs = ["", ".3f", "e", ".2e", "g", ".8g", "10.4f", "<12g", "+.1f", "012.3f", ",.2f", ".0f", "%", ".3", "#.4g", ">+15.2e", "_.3f", "^14.5g", ".15g", ".17g", ".1", "F", "G"]
for i in range(60):
    v = value(); sp = specs[i % len(specs)]
    print(sp, format(v, sp), repr(v), "%.4g|%8.3f|%e" % (v, v, v), round(v, rnd() % 6), round(v, -2), np.float32(v), repr(np.float64(v)), int(v), v // 0.7, v % 0.7, divmod(v, -3))
for i in range(25):
    n = rnd() % 7 + 1
    a = np.array([value() for _ in range(n)]); print(a, repr(a))
    b = a.astype(np.float32); print(b, repr(b))
    print(np.array([complex(value(), value()) for _ in range(n)]))
    print(np.array([int(value()) for _ in range(n)]), np.round(a, 2), a.sum(), a.mean(), a.std())
ints = ["", "d", "x", "#b", "o", ",", "08d", "+d", ">10", "_x", "e", ".2f", "X", "^9", "<6", "010,", "#010x", "c" if False else "d", "%", "n"]
for i in range(40):
    v = rnd() * rnd() % (10 ** (rnd() % 18 + 1)) * (1 if rnd() % 2 else -1); w = rnd() % 1000 + 1
    print(format(v, ints[i % len(ints)]), v // w, v % w, -v // w, divmod(v, -w), v / w, v & w, v | w, v ^ w, ~v, v >> 3, v << 2, float(v), hash(v), v % (1 << 32), "%d|%8x|%+d" % (v, abs(v), v), round(v, -3), bin(w), abs(v) ** 2)
