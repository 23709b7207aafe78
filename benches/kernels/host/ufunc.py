import sys

import numpy as np
from numba import float64, vectorize


@vectorize([float64(float64, float64)], cache=True)
def blend(x, y):
    if x > y:
        return x * 0.25 + y
    return x - y * 0.5


x = np.arange(1000000.0) % 17.0
y = np.arange(1000000.0) % 13.0
for _ in range(int(sys.argv[1])):
    z = blend(x, y)
print(z.sum())
