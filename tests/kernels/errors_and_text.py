import math

import numpy as np
from numba import njit, vectorize

@njit
def f(i, u, b, s):
    t = f"i={i} u={u} b={b} s={s}"
    return t, len(t), str(i) + "-" + str(b)
print(f(-3, np.uint8(7), True, "q")); print(f(2**62, np.uint64(2**63), False, ""))
@njit
def g(n):
    s = ""
    for i in range(n): s = s + str(i)
    return s
print(g(12))
@njit
def h(i):
    if i > 2: raise ValueError(f"bad {i}")
    print(f"ok {i}")
    return i
for i in (1, 5):
    try: h(i)
    except ValueError as e: print("E", e)
@njit
def k(x, t): return f"{x}|{t}"
print(k(1.5, (1, 2)))
@njit
def f(a, idx, m):
    return a[:, idx], a[idx, :], a[1, idx], a[idx, 1], a[1:, idx], a[:, m], a[::2, idx]
for x in f(np.arange(12).reshape(3, 4), np.array([0, 2]), np.array([True, False, True, True])): print(x, x.shape)
@njit
def f(a, b):
    return np.gcd(a, b), np.lcm(a, b), np.gcd(a, 6) + 1
x = np.array([12, -18, 7, 0]); y = np.array([8, 27, 21, 5])
for r in f(x, y): print(r, r.dtype)
for r in f(x.astype(np.int32), y.astype(np.int16)): print(r, r.dtype)
for r in f(np.uint8([4, 6]), np.uint8([10, 9])): print(r, r.dtype)
print(np.gcd(x, y), np.lcm(x, 6), np.gcd(12, 18), np.lcm(x.astype(np.int8), 4))
@vectorize
def vg(a, b): return math.gcd(a, b)
print(vg(x, y), math.gcd(12, 18))
@njit
def safe_div(a, b):
    try:
        return a // b
    except Exception:
        return -1
@njit
def loop(a):
    n = 0
    for v in a:
        try:
            if v < 0: raise ValueError("n")
            if v == 0: continue
            if v > 100: break
            n += v
        except Exception:
            n -= 1
    return n
@njit
def nested(x):
    try:
        try:
            if x == 0: raise ValueError("n")
            r = 1
        except Exception:
            if x == 0: raise TypeError("q")
            r = 2
    except Exception:
        r = 3
    return r
@njit
def partial_(x):
    y = 1
    try:
        y = 2
        if x == 0: raise ValueError("n")
        y = 3
    except Exception:
        return y
    return y + 10
@njit
def arr(n, bad):
    a = np.zeros(n)
    try:
        b = np.ones(n)
        if bad: raise ValueError("x")
        a = b + a
    except Exception:
        a[0] = -5
    return a
print(safe_div(7, 2), safe_div(7, 0), loop(np.array([1, -1, 0, 5, 101, 7])), nested(0), nested(1), partial_(0), partial_(1), arr(3, True), arr(2, False))
@njit
def outer(a, b):
    r = safe_div(a, b)
    try:
        r += a // (b - 1)
    except:
        r += 1000
    else:
        r += 1
    finally:
        r += 10000
    return r
print(outer(6, 3), outer(6, 1), outer(6, 0))
@njit
def f(vals):
    total = 0.0
    errors = 0
    for i in range(len(vals)):
        try:
            x = vals[i]
            if x < 0:
                raise ValueError("neg")
            total += math.sqrt(x)
        except Exception:
            errors += 1
    return total, errors
print(f(np.array([4.0, -1.0, 9.0, -2.0])))
