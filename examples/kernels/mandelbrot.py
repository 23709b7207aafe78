from numba import njit, prange


@njit
def escape(re, im, limit):
    x, y = 0.0, 0.0
    for n in range(limit):
        x, y = x * x - y * y + re, 2 * x * y + im
        if x * x + y * y > 4:
            return n
    return limit


@njit(parallel=True)
def render(pixels, limit):
    height, width = pixels.shape
    for row in prange(height):
        for column in range(width):
            n = escape(3.0 * column / width - 2.2, 2.4 * row / height - 1.2, limit)
            pixels[row, column] = 255 - n * 255 // limit
