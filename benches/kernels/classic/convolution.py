import sys

import numpy as np
from numba import njit


@njit(cache=True)
def convolve(image, weights, out):
    h, w = image.shape
    r = weights.shape[0] // 2
    for i in range(r, h - r):
        for j in range(r, w - r):
            s = 0.0
            for a in range(-r, r + 1):
                for b in range(-r, r + 1):
                    s += image[i + a, j + b] * weights[a + r, b + r]
            out[i, j] = s


image = np.arange(160000.0).reshape(400, 400) % 255.0
weights = np.ones((5, 5)) / 25.0
out = np.zeros((400, 400))
for _ in range(int(sys.argv[1])):
    convolve(image, weights, out)
print(round(out.sum(), 3))
