from numba import njit


@njit
def discount(count):
    return 10 if count > 2 else 0


@njit
def total(count, price):
    return count * price * (100 - discount(count)) // 100
