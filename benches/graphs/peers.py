"""Compares cachelift's graphs with PyTensor and ONNX Runtime in one run.

    python benches/graphs/peers.py            makes a virtual environment below target/, builds, measures, prints

Every figure is of new processes; importing Python and packages is left out on all sides. `cold` begins with an empty
cache, `again` is the same in a new process with what the first left.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "target" / "graph-peers"
PACKAGES = ["numpy", "onnx", "onnxruntime", "pytensor", "numba"]

# Name: inputs with shapes, and nodes as (output, op, inputs, attributes). The last output is the result.
GRAPHS = {
    "affine": ({"x": (64, 32), "w": (32, 16), "b": (16,)}, [("a", "MatMul", "x w"), ("y", "Add", "a b")]),
    "gate": ({"x": (64, 32), "y": (64, 32)}, [("s", "Sigmoid", "x"), ("t", "Tanh", "y"), ("z", "Mul", "s t")]),
    "norm": ({"x": (64, 32)}, [("q", "Mul", "x x"), ("s", "ReduceSum1", "q"), ("n", "Sqrt", "s"), ("y", "Div", "x n")]),
    "softmax": ({"x": (64, 32)}, [("y", "Softmax", "x")]),
    "mlp": (
        {"x": (64, 32), "w": (32, 48), "b": (48,), "v": (48, 8), "c": (8,)},
        [("a", "MatMul", "x w"), ("h", "Add", "a b"), ("r", "Relu", "h"), ("d", "MatMul", "r v"), ("z", "Add", "d c"),
         ("y", "Softmax", "z")],
    ),
    "loss": (
        {"x": (64, 32), "w": (32, 1), "t": (64, 1)},
        [("z", "MatMul", "x w"), ("p", "Sigmoid", "z"), ("e", "Sub", "p t"), ("q", "Mul", "e e"), ("y", "ReduceSum1", "q")],
    ),
    "poly": ({"x": (4096,)}, [("a", "Mul", "x x"), ("b", "Mul", "a x"), ("c", "Add", "a b"), ("d", "Sub", "c x"), ("y", "Abs", "d")]),
    "rms": ({"x": (64, 32), "g": (32,)}, [("q", "Mul", "x x"), ("m", "ReduceMean1", "q"), ("r", "Sqrt", "m"), ("d", "Div", "x r"), ("y", "Mul", "d g")]),
    "attention": (
        {"q": (64, 32), "k": (32, 64), "v": (64, 32)},
        [("s", "MatMul", "q k"), ("p", "Softmax", "s"), ("y", "MatMul", "p v")],
    ),
    "waves": ({"x": (4096,), "y": (4096,)}, [("a", "Sin", "x"), ("b", "Cos", "y"), ("c", "Mul", "a b"), ("d", "Exp", "c"), ("z", "Add", "d x")]),
}


def write_models(folder):
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save

    for name, (inputs, nodes) in GRAPHS.items():
        made, axes = [], [numpy_helper.from_array(np.array([1]), "axis1")]
        for output, op, reads in nodes:
            reads = reads.split()
            if op.endswith("1"):
                made.append(helper.make_node(op[:-1], reads + ["axis1"], [output], keepdims=1))
            else:
                made.append(helper.make_node(op, reads, [output]))
        values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
        last = helper.make_tensor_value_info(nodes[-1][0], TensorProto.FLOAT, None)
        graph = helper.make_graph(made, name, values, [last], axes)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / f"{name}.onnx")


def arrays(inputs):
    import numpy as np

    def noise(shape, seed):
        count = int(np.prod(shape))
        return (((np.arange(count) * 31 + seed * 17) % 29) / 14.5 - 1).astype(np.float32).reshape(shape)

    return {name: noise(shape, seed) for seed, (name, shape) in enumerate(inputs.items())}


def per_call(call):
    import time

    times, begin = [], time.perf_counter()
    while len(times) < 30 or time.perf_counter() - begin < 0.3:
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return sorted(times)[len(times) // 2]


def child_pytensor(mode):
    import time

    import pytensor
    import pytensor.tensor as pt

    if mode == "NUMBA":
        import pytensor.link.numba.dispatch  # noqa: F401
    ops = {
        "MatMul": pt.dot, "Add": pt.add, "Sub": pt.sub, "Mul": pt.mul, "Div": pt.true_div, "Sigmoid": pt.sigmoid,
        "Tanh": pt.tanh, "Sqrt": pt.sqrt, "Abs": pt.abs, "Sin": pt.sin, "Cos": pt.cos, "Exp": pt.exp,
        "Relu": lambda x: pt.maximum(x, pt.constant(0, dtype="float32")),
        "Softmax": lambda x: pt.special.softmax(x, axis=-1),
        "ReduceSum1": lambda x: pt.sum(x, axis=1, keepdims=True),
        "ReduceMean1": lambda x: pt.mean(x, axis=1, keepdims=True),
    }
    for name, (inputs, nodes) in GRAPHS.items():
        given = arrays(inputs)
        start = time.perf_counter_ns()
        values = {n: pt.tensor(n, shape=s, dtype="float32") for n, s in inputs.items()}
        variables = list(values.values())
        for output, op, reads in nodes:
            values[output] = ops[op](*(values[r] for r in reads.split()))
        function = pytensor.function(variables, values[nodes[-1][0]], mode=mode)
        function(*given.values())
        first = (time.perf_counter_ns() - start) // 1000
        call = per_call(lambda: function(*given.values()))
        print(json.dumps({"model": name, "first_us": first, "call_ns": call}), flush=True)


def child_onnxruntime(folder):
    import time

    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    for name, (inputs, _) in GRAPHS.items():
        given = arrays(inputs)
        start = time.perf_counter_ns()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(Path(folder) / f"{name}.onnx"), options, ["CPUExecutionProvider"])
        session.run(None, given)
        first = (time.perf_counter_ns() - start) // 1000
        call = per_call(lambda: session.run(None, given))
        print(json.dumps({"model": name, "first_us": first, "call_ns": call}), flush=True)


def run(command, **environment):
    output = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if output.returncode:
        sys.exit(f"{command}: {output.stderr[-2000:]}")
    lines = [json.loads(line) for line in output.stdout.splitlines() if line.startswith("{")]
    return {Path(line["model"]).stem: line for line in lines}


def main():
    import importlib.metadata as metadata

    print(", ".join(f"{package} {metadata.version(package)}" for package in PACKAGES))
    binary = os.environ.get("GRAPHS_BENCH") or build()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        write_models(scratch)
        models = [str(scratch / f"{name}.onnx") for name in GRAPHS]
        results = {}
        for turn in ("cold", "again"):
            results["cachelift", turn] = run([binary, *models], CACHELIFT_DIR=str(scratch / "cache"))
            for mode in ("NUMBA", "CVM"):
                flags = f"base_compiledir={scratch / mode},numba__cache=True"
                command = [sys.executable, __file__, "--child", "pytensor", mode]
                results[f"pytensor {mode}", turn] = run(
                    command, PYTENSOR_FLAGS=flags, NUMBA_CACHE_DIR=str(scratch / "numba")
                )
            results["onnxruntime", turn] = run([sys.executable, __file__, "--child", "onnxruntime", str(scratch)])
        report(results)


def report(results):
    peers = ["cachelift", "pytensor NUMBA", "pytensor CVM", "onnxruntime"]
    print(f"{'':12}" + "".join(f"{peer:>34}" for peer in peers))
    print(f"{'':12}" + "".join(f"{'cold, again (ms), call (us)':>34}" for _ in peers))
    totals = {key: 0 for key in results}
    for name in GRAPHS:
        row = f"{name:12}"
        for peer in peers:
            cold, again = results[peer, "cold"][name], results[peer, "again"][name]
            totals[peer, "cold"] += cold["first_us"]
            totals[peer, "again"] += again["first_us"]
            row += f"{cold['first_us'] / 1e3:>12.2f}{again['first_us'] / 1e3:>11.2f}{again['call_ns'] / 1e3:>11.2f}"
        print(row)
    print("all ten, ms: " + ", ".join(
        f"{peer} {totals[peer, 'cold'] / 1e3:.1f} cold {totals[peer, 'again'] / 1e3:.1f} again" for peer in peers))
    for peer in peers[1:]:
        ours = totals["cachelift", "cold"], totals["cachelift", "again"]
        calls = [results[peer, "again"][n]["call_ns"] / results["cachelift", "again"][n]["call_ns"] for n in GRAPHS]
        median = sorted(calls)[len(calls) // 2]
        print(f"against {peer}: cold {totals[peer, 'cold'] / ours[0]:.0f}x, second pass {totals[peer, 'again'] / ours[1]:.0f}x, "
              f"a call {median:.2f}x (median)")


def build():
    command = ["cargo", "bench", "--features", "graph", "--bench", "graphs", "--no-run", "--message-format", "json"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    artifacts = [json.loads(line) for line in output.stdout.splitlines() if line.startswith("{")]
    return [a["executable"] for a in artifacts if a.get("executable") and a["target"]["name"] == "graphs"][0]


if __name__ == "__main__":
    if sys.argv[1:3] == ["--child", "pytensor"]:
        child_pytensor(sys.argv[3])
    elif sys.argv[1:3] == ["--child", "onnxruntime"]:
        child_onnxruntime(sys.argv[3])
    elif Path(sys.prefix) != ENVIRONMENT and "GRAPHS_PYTHON" not in os.environ:
        if not ENVIRONMENT.exists():
            venv.create(ENVIRONMENT, with_pip=True)
            subprocess.run([ENVIRONMENT / "bin/pip", "install", "-q", *PACKAGES], check=True)
        os.execv(ENVIRONMENT / "bin/python", [ENVIRONMENT / "bin/python", __file__])
    else:
        main()
