# Functions over arrays that kernels call through NumPy's names, in kernel language. They are inlined where they are
# called; `_prelude` gives what the language has no words for.


def eye(n, m, k, dtype):
    out = np.zeros((n, m), dtype)
    for i in range(n):
        if 0 <= i + k < m:
            out[i, i + k] = 1
    return out


def arange_int(start, stop, step, dtype):
    if step == 0:
        raise ValueError("Maximum allowed size exceeded")
    n = len(range(start, stop, step))
    out = np.empty(n, dtype)
    for i in range(n):
        out[i] = start + i * step
    return out


def arange(start, stop, step, dtype):
    if step == 0:
        raise ValueError("Maximum allowed size exceeded")
    n = max(math.ceil((stop - start) / step), 0)
    out = np.empty(n, dtype)
    for i in range(n):
        out[i] = start + i * step
    return out


def linspace(start, stop, num):
    out = np.empty(num)
    start = start * 1.0
    stop = stop * 1.0
    if num == 0:
        return out
    div = num - 1
    if div > 0:
        step = np.divide(stop - start, div)
        for i in range(num):
            out[i] = start + i * step
    else:
        out[0] = start
    if num > 1:
        out[num - 1] = stop
    return out


def contains(a, item):
    found = False
    for v in _prelude.ravel(a):
        if v == item:
            found = True
            break
    return found


def range_contains(start, stop, step, item):
    if step > 0:
        return start <= item and item < stop and (item - start) % step == 0
    return start >= item and item > stop and (start - item) % -step == 0


def sum_items(items, start):
    total = start
    for item in items:
        total += item
    return total


def sum_axis(a, axis, dtype):
    b = _prelude.axis_first(a, axis)
    out = np.zeros(_prelude.shape_without(a, axis), dtype)
    for i in range(b.shape[0]):
        out += b[i]
    return out


def argmin(a):
    if a.size == 0:
        raise ValueError("attempt to get argmin of an empty sequence")
    best = a[0]
    at = 0
    for i in range(a.size):
        v = a[i]
        if _prelude.is_float(a):
            if np.isnan(v):
                at = i
                break
        if v < best:
            best = v
            at = i
    return at


def argmax(a):
    if a.size == 0:
        raise ValueError("attempt to get argmax of an empty sequence")
    best = a[0]
    at = 0
    for i in range(a.size):
        v = a[i]
        if _prelude.is_float(a):
            if np.isnan(v):
                at = i
                break
        if v > best:
            best = v
            at = i
    return at


def argmin_axis(a, axis):
    b = _prelude.axis_first(a, axis)
    best = b[0].copy()
    out = np.zeros(_prelude.shape_without(a, axis), np.int64)
    for i in range(1, b.shape[0]):
        smaller = b[i] < best
        out[...] = np.where(smaller, i, out)
        best[...] = np.where(smaller, b[i], best)
    return out


def argmax_axis(a, axis):
    b = _prelude.axis_first(a, axis)
    best = b[0].copy()
    out = np.zeros(_prelude.shape_without(a, axis), np.int64)
    for i in range(1, b.shape[0]):
        greater = b[i] > best
        out[...] = np.where(greater, i, out)
        best[...] = np.where(greater, b[i], best)
    return out


def cumsum(a, dtype):
    out = np.empty(a.size, dtype)
    total = _prelude.cast(0, dtype)
    for i in range(a.size):
        total = _prelude.cast(total + a[i], dtype)
        out[i] = total
    return out


def cumprod(a, dtype):
    out = np.empty(a.size, dtype)
    total = _prelude.cast(1, dtype)
    for i in range(a.size):
        total = _prelude.cast(total * a[i], dtype)
        out[i] = total
    return out


def check_lengths(a, b):
    if a.shape[0] != b.shape[0]:
        raise ValueError("np.dot(): incompatible array sizes")


def dot_mv(a, b):
    if a.shape[1] != b.shape[0]:
        raise ValueError("incompatible array sizes for np.dot(a, b) (matrix * vector)")
    out = np.zeros(a.shape[0], a.dtype)
    for i in range(a.shape[0]):
        total = _prelude.cast(0, a)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k]
        out[i] = total
    return out


def dot_vm(a, b):
    if a.shape[0] != b.shape[0]:
        raise ValueError("incompatible array sizes for np.dot(a, b) (vector * matrix)")
    out = np.zeros(b.shape[1], a.dtype)
    for k in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[j] += a[k] * b[k, j]
    return out


def dot_mm(a, b):
    if a.shape[1] != b.shape[0]:
        raise ValueError("incompatible array sizes for np.dot(a, b) (matrix * matrix)")
    out = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            x = a[i, k]
            for j in range(b.shape[1]):
                out[i, j] += x * b[k, j]
    return out


def take_mask(a, mask):
    if a.shape[0] != mask.shape[0]:
        raise IndexError("boolean index did not match indexed array")
    n = 0
    for m in mask:
        if m:
            n += 1
    out = np.empty(n, a.dtype)
    k = 0
    for i in range(mask.shape[0]):
        if mask[i]:
            out[k] = a[i]
            k += 1
    return out


def take_items(a, items):
    out = np.empty(items.shape[0], a.dtype)
    for i in range(items.shape[0]):
        out[i] = a[items[i]]
    return out


def take_rows(a, items):
    out = np.empty((items.shape[0], a.shape[1]), a.dtype)
    for i in range(items.shape[0]):
        out[i] = a[items[i]]
    return out


def put_mask(a, mask, value):
    if a.shape[0] != mask.shape[0]:
        raise IndexError("boolean index did not match indexed array")
    for i in range(mask.shape[0]):
        if mask[i]:
            a[i] = value


def put_mask_array(a, mask, values):
    if a.shape[0] != mask.shape[0]:
        raise IndexError("boolean index did not match indexed array")
    k = 0
    for i in range(mask.shape[0]):
        if mask[i]:
            k += 1
    if values.shape[0] != k and values.shape[0] != 1:
        raise ValueError("cannot assign slice from input of different size")
    step = 0 if values.shape[0] == 1 else 1
    k = 0
    for i in range(mask.shape[0]):
        if mask[i]:
            a[i] = values[k]
            k += step


def put_items(a, items, value):
    for i in range(items.shape[0]):
        a[items[i]] = value


def put_items_array(a, items, values):
    if values.shape[0] != items.shape[0]:
        raise ValueError("cannot assign slice from input of different size")
    for i in range(items.shape[0]):
        a[items[i]] = values[i]


def nonzero(a):
    return (flatnonzero(a),)


def flatnonzero(a):
    b = _prelude.ravel(a)
    n = 0
    for v in b:
        if v:
            n += 1
    out = np.empty(n, np.int64)
    k = 0
    for i in range(b.shape[0]):
        if b[i]:
            out[k] = i
            k += 1
    return out


def copy_records(a):
    out = np.empty_like(a)
    for i in range(a.shape[0]):
        out[i] = a[i]
    return out


def item(a):
    if a.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    return _prelude.ravel(a)[0]


def less(a, b):
    # Not-a-number comes last.
    if _prelude.is_float(a):
        return a < b or (np.isnan(b) and not np.isnan(a))
    return a < b


def sort_rows(a):
    if a.ndim == 1:
        sort_vector(a)
    else:
        for row in a:
            sort_rows(row)


def sort_vector(a):
    # Quicksort with a stack of its own; short parts by insertion.
    stack = np.empty(128, np.int64)
    top = 0
    lo = 0
    hi = a.shape[0] - 1
    while True:
        while hi - lo >= 16:
            mid = lo + (hi - lo) // 2
            if less(a[mid], a[lo]):
                a[mid], a[lo] = a[lo], a[mid]
            if less(a[hi], a[mid]):
                a[hi], a[mid] = a[mid], a[hi]
                if less(a[mid], a[lo]):
                    a[mid], a[lo] = a[lo], a[mid]
            pivot = a[mid]
            i = lo
            j = hi
            while i <= j:
                while less(a[i], pivot):
                    i += 1
                while less(pivot, a[j]):
                    j -= 1
                if i <= j:
                    a[i], a[j] = a[j], a[i]
                    i += 1
                    j -= 1
            # The longer part waits on the stack, so that the stack stays short.
            if j - lo < hi - i:
                stack[top] = i
                stack[top + 1] = hi
                hi = j
            else:
                stack[top] = lo
                stack[top + 1] = j
                lo = i
            top += 2
        for k in range(lo + 1, hi + 1):
            v = a[k]
            m = k - 1
            while m >= lo and less(v, a[m]):
                a[m + 1] = a[m]
                m -= 1
            a[m + 1] = v
        if top == 0:
            break
        top -= 2
        lo = stack[top]
        hi = stack[top + 1]


def sort_in_place(a):
    sort_rows(a)


def sorted_copy(a):
    sort_rows(a)
    return a


def argsort(a):
    # Merge sort: equal items keep their order.
    n = a.shape[0]
    order = np.arange(n)
    other = np.empty(n, np.int64)
    width = 1
    while width < n:
        lo = 0
        while lo < n:
            mid = min(lo + width, n)
            hi = min(lo + 2 * width, n)
            i = lo
            j = mid
            for k in range(lo, hi):
                if i < mid and (j >= hi or not less(a[order[j]], a[order[i]])):
                    other[k] = order[i]
                    i += 1
                else:
                    other[k] = order[j]
                    j += 1
            lo = hi
        order[...] = other
        width *= 2
    return order


def outer(a, b):
    x = _prelude.ravel(a)
    y = _prelude.ravel(b)
    return x[:, None] * y[None, :]


def diff(a):
    n = max(a.shape[0] - 1, 0)
    out = np.empty(n, a.dtype)
    for i in range(n):
        out[i] = a[i + 1] - a[i]
    return out


def trace(a):
    total = _prelude.cast(0, _prelude.sum_type(a))
    for i in range(min(a.shape[0], a.shape[1])):
        total += a[i, i]
    return total


def flip(a):
    return a[::-1]


def flipud(a):
    return a[::-1]


def fliplr(a):
    return a[:, ::-1]


def median(a):
    b = _prelude.ravel(a).copy()
    n = b.shape[0]
    if n == 0:
        return np.nan
    sort_vector(b)
    if _prelude.is_float(a):
        if np.isnan(b[n - 1]):
            return np.nan
    if n % 2 == 1:
        return b[n // 2] * 1.0
    return (b[n // 2 - 1] + b[n // 2]) / 2


def array_equal(a, b):
    if a.ndim != b.ndim:
        return False
    if a.shape != b.shape:
        return False
    return np.all(a == b)


def isclose(a, b):
    return np.abs(a - b) <= 1e-08 + 1e-05 * np.abs(b)


def allclose(a, b):
    return np.all(isclose(a, b))


def math_isclose(a, b):
    if a == b:
        return True
    if np.isinf(a) or np.isinf(b):
        return False
    return abs(a - b) <= 1e-09 * max(abs(a), abs(b))


def searchsorted(a, v):
    if _prelude.is_array(v):
        out = np.empty(v.shape[0], np.int64)
        for i in range(v.shape[0]):
            out[i] = search_one(a, v[i])
        return out
    return search_one(a, v)


def search_one(a, v):
    lo = 0
    hi = a.shape[0]
    while lo < hi:
        mid = (lo + hi) // 2
        if less(a[mid], v):
            lo = mid + 1
        else:
            hi = mid
    return lo


def unique(a):
    b = _prelude.ravel(a).copy()
    sort_vector(b)
    n = 0
    for i in range(b.shape[0]):
        if i == 0 or b[i] != b[i - 1]:
            b[n] = b[i]
            n += 1
    return b[:n].copy()


def bincount(a):
    most = -1
    for v in a:
        if v < 0:
            raise ValueError("first argument must be non-negative")
        most = max(most, v)
    out = np.zeros(most + 1, np.int64)
    for v in a:
        out[v] += 1
    return out


def repeat(a, n):
    b = _prelude.ravel(a)
    out = np.empty(b.shape[0] * n, b.dtype)
    for i in range(b.shape[0]):
        for k in range(n):
            out[i * n + k] = b[i]
    return out


def roll(a, shift):
    n = a.shape[0]
    out = np.empty_like(a)
    for i in range(n):
        out[(i + shift) % n] = a[i]
    return out


def ptp(a):
    return np.max(a) - np.min(a)


def concatenate(a, b):
    if a.ndim == 1:
        out = np.empty(a.shape[0] + b.shape[0], _prelude.promote(a, b))
        out[:a.shape[0]] = a
        out[a.shape[0]:] = b
        return out
    joined = np.empty((a.shape[0] + b.shape[0], a.shape[1]), _prelude.promote(a, b))
    joined[:a.shape[0]] = a
    joined[a.shape[0]:] = b
    return joined


def nansum(a):
    total = _prelude.cast(0, _prelude.sum_type(a))
    for v in _prelude.ravel(a):
        if not np.isnan(v):
            total += v
    return total


def nanmean(a):
    total = 0.0
    n = 0
    for v in _prelude.ravel(a):
        if not np.isnan(v):
            total += v
            n += 1
    return np.divide(total, n)


def nanmin(a):
    best = np.nan
    for v in _prelude.ravel(a):
        if not best <= v and not np.isnan(v):
            best = v
    return best


def nanmax(a):
    best = np.nan
    for v in _prelude.ravel(a):
        if not best >= v and not np.isnan(v):
            best = v
    return best


def interp(x, xp, fp):
    if _prelude.is_array(x):
        out = np.empty(x.shape[0])
        for i in range(x.shape[0]):
            out[i] = interp_one(x[i], xp, fp)
        return out
    return interp_one(x, xp, fp)


def interp_one(x, xp, fp):
    n = xp.shape[0]
    if x <= xp[0]:
        return fp[0] * 1.0
    if x >= xp[n - 1]:
        return fp[n - 1] * 1.0
    j = search_one(xp, x)
    if xp[j] == x:
        return fp[j] * 1.0
    slope = (fp[j] - fp[j - 1]) / (xp[j] - xp[j - 1])
    return slope * (x - xp[j - 1]) + fp[j - 1]


def diag(a):
    if a.ndim == 1:
        out = np.zeros((a.shape[0], a.shape[0]), a.dtype)
        for i in range(a.shape[0]):
            out[i, i] = a[i]
        return out
    n = min(a.shape[0], a.shape[1])
    line = np.empty(n, a.dtype)
    for i in range(n):
        line[i] = a[i, i]
    return line


def convolve(a, b):
    n = a.shape[0]
    m = b.shape[0]
    if n == 0 or m == 0:
        raise ValueError("Arrays must be of non-zero length")
    out = np.zeros(n + m - 1, _prelude.promote(a, b))
    for i in range(n):
        for k in range(m):
            out[i + k] += a[i] * b[k]
    return out


def modf(x):
    if np.isinf(x):
        return np.copysign(0.0, x), x
    whole = np.trunc(x)
    return np.copysign(x - whole, x), whole


def gcd(a, b):
    a = abs(a)
    b = abs(b)
    while b != 0:
        a, b = b, a % b
    return a


def lcm(a, b):
    if a == 0 or b == 0:
        return a * 0
    return abs(a // gcd(a, b) * b)
