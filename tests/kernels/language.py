import numpy as np
from numba import njit, prange, vectorize, guvectorize, int64, float64


@njit
def fact(n):
    return 1 if n <= 1 else n * fact(n - 1)


@njit
def is_even(n):
    return n == 0 or not is_even(n - 1)


@njit
def weights(edges):
    total = 0
    for u, v, w in edges:
        total += w * (v - u)
    return total


@njit
def pair(a):
    x, y = a
    return y, x


class Shortage(Exception):
    pass


@njit
def spend(have, cost):
    if cost > have:
        raise Shortage("short of", cost - have)
    return have - cost


@vectorize([int64(int64, int64)])
def add(a, b):
    return a + b


@guvectorize([(float64[:], float64, float64[:])], "(n),()->(n)")
def scaled(x, k, out):
    for i in range(len(x)):
        out[i] = x[i] * k


@njit(parallel=True)
def histogram(n):
    counts = np.zeros(3)
    for i in prange(n):
        counts += np.array([1.0, 2.0, i])
    return counts


@njit
def joined(m, a):
    return np.concatenate((m, m), axis=1), np.hstack((m, m)), np.stack((a, a), axis=1), np.append(a, 7)


@njit
def turned(m):
    return np.flip(m), np.roll(m, 1), np.diff(m), np.diff(m[0], 2)


@njit
def found(m):
    rows, columns = np.nonzero(m > 3)
    return rows, columns, np.where(m[0] > 1)[0], m[m[:, 0] > 1]


@njit
def ranks(a):
    return np.argsort(a), np.argsort(a, kind="mergesort")


@njit
def along(t, k):
    return np.sum(t, axis=k), t.sum(axis=-1), np.argmax(t, axis=1), t.transpose((2, 0, 1)).shape


print(fact(20), is_even(7), is_even(8))
print(weights(np.array([[0, 1, 5], [1, 3, 7]])), pair(np.array([1.5, 2.5])))
try:
    pair(np.arange(3.0))
except ValueError as e:
    print(repr(e))
try:
    spend(3, 5)
except Shortage as e:
    print(type(e).__name__, e.args)
out = np.zeros(3, dtype=np.int64)
print(add(np.arange(3), 10, out=out) is out, out)
rows = np.zeros((2, 2))
print(scaled(np.ones((2, 2)), np.array([2.0, 3.0]), out=rows) is rows, rows)
print(add([1, 2], (3, 4)), add.accumulate(np.zeros(0, dtype=np.int64)), scaled(np.zeros((2, 0)), 1.0).shape)
print(histogram(5))
m = np.arange(6).reshape(2, 3)
for results in (joined(m, m[0]), turned(m), found(m), along(np.arange(24).reshape(2, 3, 4), 1)):
    for result in results:
        print(result)
ties = np.arange(40) * 7 % 5
for order in ranks(ties):
    print(order)
