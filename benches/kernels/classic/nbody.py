import math
import sys

import numpy as np
from numba import njit


@njit(cache=True)
def advance(position, velocity, mass, dt, steps):
    n = mass.shape[0]
    for _ in range(steps):
        for i in range(n):
            for j in range(i + 1, n):
                dx = position[i, 0] - position[j, 0]
                dy = position[i, 1] - position[j, 1]
                dz = position[i, 2] - position[j, 2]
                d2 = dx * dx + dy * dy + dz * dz + 0.01
                f = dt / (d2 * math.sqrt(d2))
                velocity[i, 0] -= dx * mass[j] * f
                velocity[i, 1] -= dy * mass[j] * f
                velocity[i, 2] -= dz * mass[j] * f
                velocity[j, 0] += dx * mass[i] * f
                velocity[j, 1] += dy * mass[i] * f
                velocity[j, 2] += dz * mass[i] * f
        for i in range(n):
            for k in range(3):
                position[i, k] += velocity[i, k] * dt


position = np.arange(15.0).reshape(5, 3) % 7.0
velocity = np.zeros((5, 3))
mass = np.arange(1.0, 6.0)
for _ in range(int(sys.argv[1])):
    advance(position, velocity, mass, 0.001, 20000)
print(position.sum())
