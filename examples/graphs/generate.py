"""Writes the models of this folder: pip install onnx, then python generate.py.

main.rs builds the same graphs in Rust, and says so by their keys.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).parent
OPSET = 21


def save(name, nodes, inputs, outputs, constants=()):
    """Inputs and outputs are names with shapes; constants are names with arrays."""

    def values(shapes):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes]

    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants]
    graph = helper.make_graph(nodes, name, values(inputs), values(outputs), initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, FOLDER / f"{name}.onnx")


def logistic_regression():
    """One step of gradient descent on 64 samples of 8 features."""
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["xw"]),
        node("Add", ["xw", "b"], ["z"]),
        node("Sigmoid", ["z"], ["p"]),
        node("Log", ["p"], ["log_p"]),
        node("Mul", ["y", "log_p"], ["hit"]),
        node("Sub", ["one", "y"], ["not_y"]),
        node("Sub", ["one", "p"], ["not_p"]),
        node("Log", ["not_p"], ["log_not_p"]),
        node("Mul", ["not_y", "log_not_p"], ["miss"]),
        node("Add", ["hit", "miss"], ["likelihood"]),
        node("ReduceMean", ["likelihood"], ["mean"], keepdims=0),
        node("Neg", ["mean"], ["loss"]),
        node("Sub", ["p", "y"], ["error"]),
        node("Transpose", ["x"], ["xt"]),
        node("MatMul", ["xt", "error"], ["sum"]),
        node("Mul", ["sum", "rate"], ["step"]),
        node("Sub", ["w", "step"], ["new_w"]),
        node("ReduceSum", ["error"], ["error_sum"], keepdims=0),
        node("Mul", ["error_sum", "rate"], ["step_b"]),
        node("Sub", ["b", "step_b"], ["new_b"]),
    ]
    constants = [("one", np.float32(1)), ("rate", np.float32(0.1 / 64))]
    inputs = [("x", [64, 8]), ("y", [64]), ("w", [8]), ("b", [])]
    save("logistic_regression", nodes, inputs, [("new_w", [8]), ("new_b", []), ("loss", [])], constants)


def mlp():
    """A perceptron of two layers; the batch may be of any size."""
    node = helper.make_node
    nodes = [
        node("Gemm", ["x", "w1", "b1"], ["h"]),
        node("Relu", ["h"], ["a"]),
        node("Gemm", ["a", "w2", "b2"], ["z"]),
        node("Softmax", ["z"], ["y"], axis=-1),
    ]

    def ramp(*shape):
        count = int(np.prod(shape))
        return ((np.arange(count, dtype=np.float32) % 13 - 6) / 16).astype(np.float32).reshape(shape)

    constants = [("w1", ramp(16, 32)), ("b1", ramp(32)), ("w2", ramp(32, 4)), ("b2", ramp(4))]
    save("mlp", nodes, [("x", ["batch", 16])], [("y", ["batch", 4])], constants)


def recurrence():
    """h = tanh(h w + x), over a sequence of ten."""
    node = helper.make_node

    def value(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    body = helper.make_graph(
        [
            node("MatMul", ["h", "w"], ["hw"]),
            node("Add", ["hw", "e"], ["z"]),
            node("Tanh", ["z"], ["next"]),
            node("Identity", ["next"], ["seen"]),
        ],
        "step",
        [value("h", [1, 4]), value("e", [1, 4])],
        [value("next", [1, 4]), value("seen", [1, 4])],
    )
    nodes = [node("Scan", ["h0", "x"], ["last", "all"], body=body, num_scan_inputs=1)]
    inputs = [("h0", [1, 4]), ("x", [10, 1, 4]), ("w", [4, 4])]
    save("recurrence", nodes, inputs, [("last", [1, 4]), ("all", [10, 1, 4])])


if __name__ == "__main__":
    logistic_regression()
    mlp()
    recurrence()
