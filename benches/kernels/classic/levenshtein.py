import sys

import numpy as np
from numba import njit


@njit(cache=True)
def distance(a, b):
    previous = np.arange(b.shape[0] + 1)
    current = np.zeros(b.shape[0] + 1, dtype=np.int64)
    for i in range(a.shape[0]):
        current[0] = i + 1
        for j in range(b.shape[0]):
            cost = 0 if a[i] == b[j] else 1
            current[j + 1] = min(previous[j + 1] + 1, current[j] + 1, previous[j] + cost)
        previous, current = current, previous
    return previous[b.shape[0]]


a = np.arange(2000) * 7 % 26
b = np.arange(1800) * 11 % 26
total = 0
for _ in range(int(sys.argv[1])):
    total += distance(a, b)
print(total)
