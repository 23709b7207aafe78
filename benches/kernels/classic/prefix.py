import sys

import numpy as np
from numba import njit


@njit(cache=True)
def prefix(values, out):
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i]
        out[i] = total


values = np.arange(1000000.0) % 17.0
out = np.zeros(1000000)
for _ in range(int(sys.argv[1])):
    prefix(values, out)
print(out[-1])
