# A kernel over an array, a factory of kernels that capture, and a loop on all processors.
import numpy as np
from numba import njit, prange


@njit
def norm(x):
    return np.sqrt((x * x).sum())


def power(n):
    @njit
    def raised(x):
        return x**n

    return raised


@njit(parallel=True)
def harmonic(n):
    total = 0.0
    for i in prange(1, n + 1):
        total += 1 / i
    return total


square, cube = power(2), power(3)
print(norm(np.array([3.0, 4.0])), square(7), cube(1.5))
print(harmonic(1_000_000))
