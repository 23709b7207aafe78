import sys

import numpy as np
from numba import njit


@njit(cache=True)
def multiply(a, b, c):
    n, m = a.shape
    p = b.shape[1]
    for i in range(n):
        for k in range(m):
            f = a[i, k]
            for j in range(p):
                c[i, j] += f * b[k, j]


a = np.arange(40000.0).reshape(200, 200) % 11.0
b = np.arange(40000.0).reshape(200, 200) % 13.0
c = np.zeros((200, 200))
for _ in range(int(sys.argv[1])):
    multiply(a, b, c)
print(c.sum())
