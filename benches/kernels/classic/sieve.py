import sys

import numpy as np
from numba import njit


@njit(cache=True)
def primes(n):
    composite = np.zeros(n + 1, dtype=np.bool_)
    count = 0
    for i in range(2, n + 1):
        if not composite[i]:
            count += 1
            for j in range(i * i, n + 1, i):
                composite[j] = True
    return count


total = 0
for _ in range(int(sys.argv[1])):
    total += primes(2000000)
print(total)
