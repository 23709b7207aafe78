import numpy as np
from numba import types
from numba import int64, int8, float32, float64, uint8, complex128, boolean, void
def classify(x):
    if isinstance(x, types.Integer):
        return "int", x.bitwidth, x.signed
    if isinstance(x, (types.Float, types.Complex)):
        return "float", x.bitwidth
    if isinstance(x, types.Array):
        return "array", x.ndim, x.layout, x.dtype, isinstance(x.dtype, types.Integer)
    if isinstance(x, types.UniTuple):
        return "unituple", x.count, x.dtype, len(x)
    if isinstance(x, types.BaseTuple):
        return "tuple", len(x), x.types, x[0]
    if isinstance(x, types.Boolean):
        return "bool"
    if isinstance(x, types.NoneType):
        return "none"
    if isinstance(x, types.Optional):
        return "optional", x.type
    return "other"
for t in (int64, int8, uint8, float32, float64, complex128, boolean, types.none, float64[:], int64[:, ::1], types.UniTuple(int64, 3), types.Tuple((int64, float64)), types.Optional(int64), types.unicode_type):
    print(t, classify(t), t == int64, t in (int64, float64), t in types.integer_domain if False else "", isinstance(t, types.Number), repr(str(t)))
print(int64 is types.int64, int64 == types.intp, types.int32 != types.int64, {int64: "a"}[types.int64], isinstance(3, types.Integer))
print(int64(int64, float64), void(float64[:]), int64(3), float32(1) / float32(3), uint8(255), float64(2), complex128(1), boolean(3), int64(2.9))
try:
    int8(300)
except OverflowError as e:
    print(e)
sig = int64(int64, float64)
print(sig.args, sig.return_type)
print(types.unliteral(types.literal(5)), types.literal(5), types.literal("a"), types.literal(5).literal_value, isinstance(types.literal(5), types.Literal), isinstance(types.literal(5), types.IntegerLiteral), isinstance(types.literal(5), types.Integer))
