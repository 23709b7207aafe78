import sys

import numpy as np
from numba import njit


@njit(cache=True)
def render(out, limit):
    h, w = out.shape
    for i in range(h):
        for j in range(w):
            re, im = 3.0 * j / w - 2.0, 2.0 * i / h - 1.0
            x, y, n = 0.0, 0.0, 0
            while n < limit and x * x + y * y <= 4.0:
                x, y = x * x - y * y + re, 2.0 * x * y + im
                n += 1
            out[i, j] = n


out = np.zeros((200, 300), dtype=np.int64)
for _ in range(int(sys.argv[1])):
    render(out, 200)
print(out.sum())
