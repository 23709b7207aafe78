import math
import sys

import numpy as np
from numba import njit


@njit(cache=True)
def cdf(x):
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


@njit(cache=True)
def price(spot, strike, years, out):
    rate, volatility = 0.02, 0.3
    for i in range(spot.shape[0]):
        root = volatility * math.sqrt(years[i])
        d1 = (math.log(spot[i] / strike[i]) + (rate + volatility * volatility / 2) * years[i]) / root
        discount = math.exp(-rate * years[i])
        out[i] = spot[i] * cdf(d1) - strike[i] * discount * cdf(d1 - root)


n = 50000
spot = 80.0 + np.arange(n) % 40.0
strike = 90.0 + np.arange(n) % 20.0
years = 0.5 + np.arange(n) % 3.0
out = np.zeros(n)
for _ in range(int(sys.argv[1])):
    price(spot, strike, years, out)
print(round(out.sum(), 6))
