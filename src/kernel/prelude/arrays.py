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


def sum_any_axis(a, axis, dtype):
    if axis == 0:
        return sum_axis(a, 0, dtype)
    if axis == 1:
        return sum_axis(a, 1, dtype)
    if a.ndim > 2:
        if axis == 2:
            return sum_axis(a, 2, dtype)
    if axis < 0 or axis > 3:
        raise ValueError("Numba does not support sum with axis parameter outside the range 0 to 3.")
    raise ValueError("axis is out of bounds for array")


def quantile(a, q):
    return percentile(a, q * 100.0)


def percentile(a, q):
    if _prelude.is_array(q):
        out = np.empty(q.shape[0])
        for i in range(q.shape[0]):
            out[i] = percentile_one(a, q[i] * 1.0)
        return out
    return percentile_one(a, q * 1.0)


def percentile_one(a, q):
    b = _prelude.ravel(a) * 1.0
    n = b.shape[0]
    if q < 0.0 or q > 100.0:
        raise ValueError("Percentiles must be in the range [0, 100]")
    if n == 0:
        return np.nan
    sort_vector(b)
    if np.isnan(b[n - 1]):
        return np.nan
    if n == 1:
        return b[0]
    if q == 100.0:
        return b[n - 1]
    rank = 1 + (n - 1) * q / 100.0
    whole = int(math.floor(rank))
    part = rank - whole
    return b[whole - 1] * (1 - part) + b[whole] * part


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
    if a.ndim == 1:
        out = np.empty(n, a.dtype)
        k = 0
        for i in range(mask.shape[0]):
            if mask[i]:
                out[k] = a[i]
                k += 1
        return out
    rows = np.empty((n, a.shape[1]), a.dtype)
    k = 0
    for i in range(mask.shape[0]):
        if mask[i]:
            rows[k] = a[i]
            k += 1
    return rows


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


def chosen(items):
    if _prelude.is_bool(items):
        return flatnonzero(items)
    return items


def take_along(a, items, axis):
    chosen_items = chosen(items)
    n = chosen_items.shape[0]
    b = _prelude.axis_first(a, axis)
    out = np.empty(_prelude.shape_with(a, axis, n), a.dtype)
    c = _prelude.axis_first(out, axis)
    for i in range(n):
        c[i] = b[chosen_items[i]]
    return out


def put_along(a, items, axis, value):
    chosen_items = chosen(items)
    b = _prelude.axis_first(a, axis)
    if _prelude.is_array(value):
        if value.ndim == a.ndim:
            c = _prelude.axis_first(value, axis)
            for i in range(chosen_items.shape[0]):
                b[chosen_items[i]] = c[i]
        elif axis == 0:
            for i in range(chosen_items.shape[0]):
                b[chosen_items[i]] = value
        else:
            _prelude.too_many_dimensions(value)
    else:
        for i in range(chosen_items.shape[0]):
            b[chosen_items[i]] = value


def broadcast_to(array, shape):
    out = np.empty(shape, array.dtype)
    out[...] = array
    return out


def histogram(a, bins=10, range=None):
    if _prelude.is_array(bins):
        n = bins.shape[0] - 1
        hist = np.zeros(n, np.int64)
        if n > 0:
            for v in _prelude.ravel(a):
                if bins[0] <= v <= bins[n]:
                    low = 0
                    high = n - 1
                    while low < high:
                        middle = (low + high + 1) >> 1
                        if v < bins[middle]:
                            high = middle - 1
                        else:
                            low = middle
                    hist[low] += 1
        return hist, bins
    flat = _prelude.ravel(a)
    if range is None:
        low = 0.0
        high = 1.0
        if a.size > 0:
            low = float(np.min(a))
            high = float(np.max(a))
    else:
        low = float(range[0])
        high = float(range[1])
    return histogram_even(flat, bins, low, high)


def histogram_even(a, bins, low, high):
    hist = np.zeros(bins, np.int64)
    if high > low:
        ratio = bins / (high - low)
        for v in a:
            b = math.floor((v - low) * ratio)
            if 0 <= b < bins:
                hist[int(b)] += 1
            elif v == high:
                hist[bins - 1] += 1
    return hist, np.linspace(low, high, bins + 1)


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
    if a.ndim == 1:
        return (flatnonzero(a),)
    n = np.count_nonzero(a)
    k = 0
    first = np.empty(n, np.int64)
    second = np.empty(n, np.int64)
    if a.ndim == 2:
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                if a[i, j]:
                    first[k] = i
                    second[k] = j
                    k += 1
        return first, second
    if a.ndim == 3:
        third = np.empty(n, np.int64)
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                for m in range(a.shape[2]):
                    if a[i, j, m]:
                        first[k] = i
                        second[k] = j
                        third[k] = m
                        k += 1
        return first, second, third
    return _prelude.too_many_dimensions(a)


def argwhere(a):
    places = nonzero(a)
    out = np.empty((places[0].shape[0], a.ndim), np.int64)
    out[:, 0] = places[0]
    if a.ndim > 1:
        out[:, 1] = places[1]
    if a.ndim > 2:
        out[:, 2] = places[2]
    return out


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
    # Numba's quicksort, step by step: where items are equal their order is its.
    n = a.shape[0]
    order = np.arange(n)
    if n < 2:
        return order
    stack = np.empty(256, np.int64)
    stack[0] = 0
    stack[1] = n - 1
    top = 2
    while top > 0:
        top -= 2
        low = stack[top]
        high = stack[top + 1]
        while high - low >= 15:
            mid = (low + high) >> 1
            if less(a[order[mid]], a[order[low]]):
                order[low], order[mid] = order[mid], order[low]
            if less(a[order[high]], a[order[mid]]):
                order[high], order[mid] = order[mid], order[high]
            if less(a[order[mid]], a[order[low]]):
                order[low], order[mid] = order[mid], order[low]
            pivot = a[order[mid]]
            order[high], order[mid] = order[mid], order[high]
            i = low
            j = high - 1
            while True:
                while i < high and less(a[order[i]], pivot):
                    i += 1
                while j >= low and less(pivot, a[order[j]]):
                    j -= 1
                if i >= j:
                    break
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
            order[i], order[high] = order[high], order[i]
            # The longer part waits on the stack, so that the stack stays short.
            if high - i > i - low:
                if high > i:
                    stack[top] = i + 1
                    stack[top + 1] = high
                    top += 2
                high = i - 1
            else:
                if i > low:
                    stack[top] = low
                    stack[top + 1] = i - 1
                    top += 2
                low = i + 1
        for k in range(low + 1, high + 1):
            item = order[k]
            v = a[item]
            m = k
            while m > low and less(v, a[order[m - 1]]):
                order[m] = order[m - 1]
                m -= 1
            order[m] = item
    return order


def argsort_stable(a):
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


def diff(a, n=1):
    out = a.copy()
    for _ in range(n):
        out = diff_once(out)
    return out


def diff_once(a):
    if a.ndim == 1:
        return a[1:] - a[:-1]
    if a.ndim == 2:
        return a[:, 1:] - a[:, :-1]
    return _prelude.too_many_dimensions(a)


def trace(a):
    total = _prelude.cast(0, _prelude.sum_type(a))
    for i in range(min(a.shape[0], a.shape[1])):
        total += a[i, i]
    return total


def flip(a):
    if a.ndim == 1:
        return a[::-1]
    if a.ndim == 2:
        return a[::-1, ::-1]
    if a.ndim == 3:
        return a[::-1, ::-1, ::-1]
    return _prelude.too_many_dimensions(a)


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


def searchsorted(a, v, side="left"):
    if _prelude.is_array(v):
        out = np.empty(v.shape[0], np.int64)
        for i in range(v.shape[0]):
            out[i] = search_side(a, v[i], side)
        return out
    return search_side(a, v, side)


def search_side(a, v, side):
    if side == "right":
        lo = 0
        hi = a.shape[0]
        while lo < hi:
            mid = (lo + hi) // 2
            if less(v, a[mid]):
                hi = mid
            else:
                lo = mid + 1
        return lo
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


def bincount(a, minlength=0):
    most = minlength - 1
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
    b = _prelude.ravel(a)
    out = np.empty(a.shape, a.dtype)
    flat = _prelude.ravel(out)
    n = b.shape[0]
    for i in range(n):
        flat[(i + shift) % n] = b[i]
    return out


def ptp(a):
    return np.max(a) - np.min(a)


def concatenate(a, b, axis):
    if a.ndim != b.ndim:
        return _prelude.different_dimensions(a, b)
    if a.ndim == 1:
        out = np.empty(a.shape[0] + b.shape[0], _prelude.promote(a, b))
        out[:a.shape[0]] = a
        out[a.shape[0]:] = b
        return out
    first = _prelude.axis_first(a, axis)
    second = _prelude.axis_first(b, axis)
    n = first.shape[0]
    if a.ndim == 2:
        if first.shape[1] != second.shape[1]:
            raise ValueError("np.concatenate(): input sizes over dimension do not match")
        if axis == 0:
            joined = np.empty((n + second.shape[0], a.shape[1]), _prelude.promote(a, b))
        else:
            joined = np.empty((a.shape[0], n + second.shape[0]), _prelude.promote(a, b))
    elif a.ndim == 3:
        if first.shape[1] != second.shape[1] or first.shape[2] != second.shape[2]:
            raise ValueError("np.concatenate(): input sizes over dimension do not match")
        if axis == 0:
            joined = np.empty((n + second.shape[0], a.shape[1], a.shape[2]), _prelude.promote(a, b))
        elif axis == 1:
            joined = np.empty((a.shape[0], n + second.shape[0], a.shape[2]), _prelude.promote(a, b))
        else:
            joined = np.empty((a.shape[0], a.shape[1], n + second.shape[0]), _prelude.promote(a, b))
    else:
        return _prelude.too_many_dimensions(a)
    target = _prelude.axis_first(joined, axis)
    target[:n] = first
    target[n:] = second
    return joined


def with_axis(a, axis):
    # A view with one more axis, of length one.
    if a.ndim == 1:
        if axis == 0:
            return a[None, :]
        return a[:, None]
    if a.ndim == 2:
        if axis == 0:
            return a[None, :, :]
        if axis == 1:
            return a[:, None, :]
        return a[:, :, None]
    return _prelude.too_many_dimensions(a)


def append(a, b):
    first = _prelude.ravel(a)
    if _prelude.is_array(b):
        return concatenate(first, _prelude.ravel(b), 0)
    return concatenate(first, np.full(1, b), 0)


def take(a, items):
    b = _prelude.ravel(a)
    if _prelude.is_array(items):
        return take_items(b, items)
    return b[items]


def tril(a, k=0):
    out = np.zeros(a.shape, a.dtype)
    for i in range(a.shape[0]):
        for j in range(min(i + k + 1, a.shape[1])):
            out[i, j] = a[i, j]
    return out


def triu(a, k=0):
    out = np.zeros(a.shape, a.dtype)
    for i in range(a.shape[0]):
        for j in range(max(i + k, 0), a.shape[1]):
            out[i, j] = a[i, j]
    return out


def cross(a, b):
    if a.shape[0] != 3 or b.shape[0] != 3:
        raise ValueError("Incompatible dimensions for cross product")
    out = np.empty(3, _prelude.promote(a, b))
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]
    return out


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
    if not _prelude.is_float(a):
        return np.min(a)
    best = np.nan
    for v in _prelude.ravel(a):
        if not best <= v and not np.isnan(v):
            best = v
    return best


def nanmax(a):
    if not _prelude.is_float(a):
        return np.max(a)
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
