import numpy as np
# every width, sign and kind of float in columns
vals = [0.0, -0.0, 1.0, -1.5, 1e-3, 123.456, 1e5, 99999.5, 1e8, 1e-5, 1/3, 2/3*100, np.nan, np.inf, -np.inf, 1e16, 5e-324, 1.7e308]
for i in range(len(vals)):
    for j in (i, (i + 3) % len(vals), (i + 7) % len(vals)):
        print(np.array([vals[i], vals[j]]), end=" ")
        print(np.array([vals[i], vals[j]], dtype=np.float32) if abs(vals[i]) < 1e38 and abs(vals[j]) < 1e38 else "", end=" ")
    print(np.array(vals[: i + 1]), repr(np.array(vals[i:])))
print(np.array(vals).reshape(3, 6)); print(np.array(vals).reshape(2, 3, 3))
z = np.array([complex(a, b) for a, b in zip(vals, vals[::-1])]); print(z); print(repr(z[:5])); print(z.reshape(6, 3)[:2])
for d in (np.int8, np.uint8, np.int16, np.int32, np.uint64, np.bool_, np.float32):
    a = np.arange(6).reshape(2, 3).astype(d); print(a, repr(a), a[0, 1], repr(a[0, 1]), [a[0, 1]], a.dtype, repr(a.dtype), a.sum(), repr(a.sum()))
print(np.arange(1001).reshape(7, 11, 13)); print(np.arange(2000.0)); print(repr(np.arange(1500) * 0.5)); print(np.ones((40, 40))); print(np.zeros((3, 400)))
print(np.arange(100)); print(repr(np.arange(100))); print(np.arange(30) * 1e5); print(repr(np.linspace(-1, 1, 11))); print(np.array([[1e10, 1], [2, 3]])); print(np.array([1e-10, 1e10]))
print(np.array([100000, 1, -50])); print(np.array([-5, 3])); print(np.array([[0.5, 100], [1, 2]])); print(np.array([[[1.5]]])); print(np.array([True] * 30)); print(np.array([[True, False]] * 2))
r = np.zeros((2, 2), dtype=[("x", np.float32), ("y", np.int16), ("z", np.bool_), ("w", np.complex128)]); r["x"] = 1.5; r["y"][0] = 300; r["z"][1] = True; r["w"][1, 1] = 1 - 2j; print(r); print(repr(r)); print(r[0, 0], repr(r[1, 1]), r[0], r["x"], r["y"], r["z"], r["w"])
print(np.array([1.0, 10.0, 100.0]), np.array([0.001, 0.01]), np.array([0.00012, 0.1]), np.array([1234.5678, 0.1]), np.array([1.0, 1000.1]), np.array([1e3, 1.0]), np.array([1e4, 1]), np.array([1e3 + 1, 1.0]))
print(np.float64(1e16), np.float64(1e15), np.float64(123456.789), np.float32(1e-4), np.float32(9.99e-5), np.float32(0.3333333), np.float32(3e5), np.float64(1e-4), np.float64(1e-5), np.float32(999999.9), np.float32(1000000))
print(str(np.array(1.5)), repr(np.array(1.5)), np.array(3), repr(np.array([[]])), np.zeros((2, 0, 3)), repr(np.zeros((2, 0))), np.array(1 + 2j), repr(np.array(True)), np.array(np.nan), np.array(1e20), repr(np.array(1e-7, dtype=np.float32)))
print([1.0, np.float64(2.0)], (np.int32(1),), {"a": np.array([1.0])}, {np.int64(1): 2}, f"{np.array([1.5, 2])}", f"{np.float64(2.5):.3e}", f"{np.int64(255):#x}", f"{np.float32(2.5)!r}", str([np.nan, np.inf]), [np.float32("nan")], np.float64("-inf"))
x = np.array([0.1, 0.2, 0.30000000000000004, 1 / 3]); print(x, x * 3, x.tolist(), x[2], x.sum(), x.mean(), x.prod(), x.std(), x.var(), x.max(), x.cumsum(), x / 0.1, x ** 0.5, np.exp(x) > 1)
for k in range(12): print(np.array([10.0 ** -k, 1.0]), np.array([10.0 ** k, 1.0]), np.array([10.0 ** -k]), np.array([10.0 ** k]), np.array([3.0 * 10.0 ** k + 1 / 3]), np.array([10.0 ** k, 0.5], dtype=np.float32), np.array([7 ** k, -1]))
