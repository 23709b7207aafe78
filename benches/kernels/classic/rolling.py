import sys

import numpy as np
from numba import njit


@njit(cache=True)
def rolling(values, width, out):
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i]
        if i >= width:
            total -= values[i - width]
            out[i] = total / width


values = np.arange(1000000.0) % 23.0
out = np.zeros(1000000)
for _ in range(int(sys.argv[1])):
    rolling(values, 50, out)
print(round(out.sum(), 3))
