import sys

import numpy as np
from numba import njit


@njit(cache=True)
def assign(points, centres, labels):
    total = 0.0
    for i in range(points.shape[0]):
        best, at = 1e300, 0
        for k in range(centres.shape[0]):
            d = 0.0
            for j in range(points.shape[1]):
                t = points[i, j] - centres[k, j]
                d += t * t
            if d < best:
                best, at = d, k
        labels[i] = at
        total += best
    return total


points = (np.arange(160000.0) * 7.31 % 17.0).reshape(20000, 8)
centres = points[:10].copy()
labels = np.zeros(20000, dtype=np.int64)
total = 0.0
for _ in range(int(sys.argv[1])):
    total += assign(points, centres, labels)
print(labels.sum(), total > 0)
