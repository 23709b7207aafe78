# k-means over points on three clouds, with a generator of numbers of its own.
import sys

import numpy as np
from numba import njit


@njit
def cloud(points, seed):
    state = seed
    for i in range(points.shape[0]):
        for j in range(points.shape[1]):
            state = (state * 1103515245 + 12345) % 2147483648
            points[i, j] = state / 2147483648 + 3 * (i % 3)


@njit
def nearest(point, centres):
    best, at = np.inf, 0
    for k in range(centres.shape[0]):
        distance = 0.0
        for j in range(point.shape[0]):
            distance += (point[j] - centres[k, j]) ** 2
        if distance < best:
            best, at = distance, k
    return at


@njit
def step(points, centres, labels):
    sums = np.zeros(centres.shape)
    counts = np.zeros(centres.shape[0])
    moved = 0
    for i in range(points.shape[0]):
        k = nearest(points[i], centres)
        if labels[i] != k:
            labels[i] = k
            moved += 1
        counts[k] += 1
        for j in range(points.shape[1]):
            sums[k, j] += points[i, j]
    for k in range(centres.shape[0]):
        if counts[k] > 0:
            for j in range(centres.shape[1]):
                centres[k, j] = sums[k, j] / counts[k]
    return moved


count = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
points = np.zeros((count, 2))
cloud(points, 42)
centres = points[:3].copy()
labels = np.zeros(count, dtype=np.int64) - 1
rounds = 1
while step(points, centres, labels) > 0:
    rounds += 1
print("rounds", rounds)
print(centres.round(3))
