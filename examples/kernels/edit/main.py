# Edit any of the three files and run this again: cachelift run --summary human main.py
from numba import njit

from prices import total
from taxes import RATE


@njit
def receipt(count, price):
    net = total(count, price)
    return net + net * RATE // 100


for count in range(1, 4):
    print(count, receipt(count, 250))
