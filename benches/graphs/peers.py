"""Compares cachelift's graphs with PyTensor and ONNX Runtime in one run, and prints tables in Markdown.

    python benches/graphs/peers.py [--quick] [--format json] [--only PART]... [--suite N]

Makes a virtual environment below target/, installs the peers in it, and builds `cargo bench --bench graphs`. `cold` begins
with an empty cache; `again` is the same in a new process with what the first left; calls are timed in a third. Importing
Python and packages is left out; opening our cache is in. Times to the first result are those of whole processes that do one
model after another, and, against ONNX Runtime, of a new process for each model. `--suite N` is how many small graphs the
suite has (300, or 20 if it is to be quick). `--only` and `--peer`
measure parts of it.
"""

import argparse
import json
import os
import statistics
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

# Nine nodes over vectors, as the bench's own price of the VM.
CHAIN = [
    (output, op, reads)
    for n, before in ((1, "x"), (2, "s1"))
    for output, op, reads in [
        (f"m{n}", "Mul", f"{before} y"), (f"a{n}", "Add", f"m{n} x"), (f"b{n}", "Abs", f"a{n}"), (f"s{n}", "Sqrt", f"b{n}")
    ]
] + [("sum", "ReduceSum0", "s2")]
CHAINS = {f"chain{n}": ({"x": (n,), "y": (n,)}, CHAIN) for n in (10, 1_000, 1_000_000)}

# Operators of the suite: those that all sides have.
UNARY = ["Abs", "Neg", "Sign", "Exp", "Floor", "Ceil", "Sin", "Cos", "Atan", "Tanh", "Erf", "Sigmoid", "Relu", "Softplus"]
BINARY = ["Add", "Sub", "Mul", "Min", "Max"]
REDUCING = ["ReduceSum1", "ReduceMean1", "ReduceMax1", "ReduceMin1"]


def suite(count):
    """Small graphs of five nodes that their number's digits choose."""
    graphs = {}
    for number in range(count):
        nodes, value, digits = [], "x", (number * 2_654_435_761) >> 3
        for step in range(5):
            choice = digits % (len(UNARY) + len(BINARY) + len(REDUCING) + 1)
            digits = digits // 24 * 31 + number
            output = f"v{step}"
            if choice < len(UNARY):
                nodes.append((output, UNARY[choice], value))
            elif choice < len(UNARY) + len(BINARY):
                nodes.append((output, BINARY[choice - len(UNARY)], f"{value} x"))
            elif choice < len(UNARY) + len(BINARY) + len(REDUCING):
                nodes.append((f"r{step}", REDUCING[choice - len(UNARY) - len(BINARY)], value))
                nodes.append((output, "Add", f"r{step} x"))
            else:
                nodes.append((output, "Softmax", value))
            value = output
        graphs[f"suite{number}"] = ({"x": (4, 5 + number % 3)}, nodes)
    return graphs


def graphs_of(names, count):
    """The graphs of a group: the ten, the chains, the suite, or a single one."""
    groups = {"ten": GRAPHS, "chains": CHAINS, "suite": suite(count)}
    return groups.get(names) or {names: GRAPHS[names]}


def write_models(folder, graphs):
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save

    for name, (inputs, nodes) in graphs.items():
        used = sorted({op[-1] for _, op, _ in nodes if op[-1].isdigit()})
        made, axes = [], [numpy_helper.from_array(np.array([int(axis)]), f"axis{axis}") for axis in used]
        for output, op, reads in nodes:
            reads = reads.split()
            if op[-1] in used:
                made.append(helper.make_node(op[:-1], reads + [f"axis{op[-1]}"], [output], keepdims=1))
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


def per_call(call, seconds):
    """The median of at least 30 calls, in nanoseconds; nothing if no time is to be spent on it."""
    import time

    if not seconds:
        return None
    times, begin = [], time.perf_counter()
    while len(times) < 30 or time.perf_counter() - begin < seconds:
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return sorted(times)[len(times) // 2]


def child_pytensor(graphs, seconds, mode):
    import time

    import pytensor
    import pytensor.tensor as pt

    if mode == "NUMBA":
        import pytensor.link.numba.dispatch  # noqa: F401
    ops = {
        "MatMul": pt.dot, "Add": pt.add, "Sub": pt.sub, "Mul": pt.mul, "Div": pt.true_div, "Sigmoid": pt.sigmoid,
        "Tanh": pt.tanh, "Sqrt": pt.sqrt, "Abs": pt.abs, "Sin": pt.sin, "Cos": pt.cos, "Exp": pt.exp, "Neg": pt.neg,
        "Sign": pt.sign, "Floor": pt.floor, "Ceil": pt.ceil, "Atan": pt.arctan, "Erf": pt.erf, "Softplus": pt.softplus,
        "Min": pt.minimum, "Max": pt.maximum,
        "Relu": lambda x: pt.maximum(x, pt.constant(0, dtype="float32")),
        "Softmax": lambda x: pt.special.softmax(x, axis=-1),
        "ReduceSum0": lambda x: pt.sum(x, axis=0, keepdims=True),
        "ReduceSum1": lambda x: pt.sum(x, axis=1, keepdims=True),
        "ReduceMean1": lambda x: pt.mean(x, axis=1, keepdims=True),
        "ReduceMax1": lambda x: pt.max(x, axis=1, keepdims=True),
        "ReduceMin1": lambda x: pt.min(x, axis=1, keepdims=True),
    }
    for name, (inputs, nodes) in graphs.items():
        given = arrays(inputs)
        start = time.perf_counter_ns()
        values = {n: pt.tensor(n, shape=s, dtype="float32") for n, s in inputs.items()}
        variables = list(values.values())
        for output, op, reads in nodes:
            values[output] = ops[op](*(values[r] for r in reads.split()))
        function = pytensor.function(variables, values[nodes[-1][0]], mode=mode)
        function(*given.values())
        first = (time.perf_counter_ns() - start) / 1000
        call = per_call(lambda: function(*given.values()), seconds)
        print(json.dumps({"model": name, "first_us": first, "call_ns": call}), flush=True)


def child_onnxruntime(graphs, seconds, folder):
    import time

    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    for name, (inputs, _) in graphs.items():
        given = arrays(inputs)
        start = time.perf_counter_ns()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(Path(folder) / f"{name}.onnx"), options, ["CPUExecutionProvider"])
        session.run(None, given)
        first = (time.perf_counter_ns() - start) / 1000
        call = per_call(lambda: session.run(None, given), seconds)
        print(json.dumps({"model": name, "first_us": first, "call_ns": call}), flush=True)


def run(command, **environment):
    output = subprocess.run([str(word) for word in command], env={**os.environ, **environment}, capture_output=True, text=True)
    if output.returncode:
        sys.exit(f"{command}: {output.stderr[-2000:]}")
    lines = [json.loads(line) for line in output.stdout.splitlines() if line.startswith("{")]
    return {Path(line["model"]).stem: line for line in lines}


class Bench:
    """The three sides, over one scratch directory."""

    def __init__(self, scratch, binary, seconds, count):
        self.scratch, self.binary, self.seconds, self.count = Path(scratch), binary, seconds, count

    def peer(self, peer, group, calls):
        if peer == "cachelift":
            return self.cachelift(group, f"cache-{group}", calls)
        if peer == "ONNX Runtime":
            return self.onnxruntime(group, calls)
        return self.pytensor(peer.removeprefix("PyTensor "), group, calls)

    def cachelift(self, group, cache, calls=True):
        models = [self.scratch / f"{name}.onnx" for name in graphs_of(group, self.count)]
        flags = [flag for flag, on in (("--quick", self.seconds < 0.3), ("--first-only", not calls)) if on]
        return run([self.binary, *flags, "--models", *models], CACHELIFT_DIR=str(self.scratch / cache))

    def child(self, peer, group, *arguments, calls=True, **environment):
        seconds = self.seconds if calls else 0
        return run([sys.executable, __file__, "--child", peer, group, self.count, seconds, *arguments], **environment)

    def pytensor(self, mode, group, calls=True):
        flags = f"base_compiledir={self.scratch / mode}-{group},numba__cache=True"
        numba = str(self.scratch / f"numba-{group}")
        return self.child("pytensor", group, mode, calls=calls, PYTENSOR_FLAGS=flags, NUMBA_CACHE_DIR=numba)

    def onnxruntime(self, group, calls=True):
        return self.child("onnxruntime", group, self.scratch, calls=calls)

    def group(self, name, calls=True):
        """Each side, cold and again, by graph; times of calls are those of a third process, which does nothing else."""
        results = {}
        for turn, timed in (("cold", False), ("again", False), ("calls", True))[: 3 if calls else 2]:
            for peer in PEERS:
                results[peer, turn] = self.peer(peer, name, timed)
        return results

    def alone(self, name, times):
        """Medians of so many new processes for this graph alone, in microseconds: ours, which find it in the cache, and ONNX
        Runtime's."""
        self.cachelift(name, f"cache-{name}", calls=False)
        ours = [self.cachelift(name, f"cache-{name}", calls=False)[name]["first_us"] for _ in range(times)]
        theirs = [self.onnxruntime(name, calls=False)[name]["first_us"] for _ in range(times)]
        return {"cachelift_us": statistics.median(ours), "onnxruntime_us": statistics.median(theirs)}


# The first is compared with the others.
PEERS = ["cachelift", "PyTensor NUMBA", "PyTensor CVM", "ONNX Runtime"]


def total(results, peer, turn):
    return sum(line["first_us"] for line in results[peer, turn].values())


def ratios(results):
    """By peer: how many times ours it takes, cold and again, and for a call in the median."""
    answer = {}
    ours = results.get(("cachelift", "calls"), {})
    for peer in PEERS[1:]:
        calls = [results[peer, "calls"][name]["call_ns"] / line["call_ns"] for name, line in ours.items()]
        answer[peer] = {turn: total(results, peer, turn) / total(results, "cachelift", turn) for turn in ("cold", "again")}
        answer[peer]["call"] = statistics.median(calls) if calls else None
    return answer


def main(options):
    import importlib.metadata as metadata

    if options.peer:
        PEERS[1:] = options.peer
    versions = {package: metadata.version(package) for package in PACKAGES}
    binary = os.environ.get("GRAPHS_BENCH") or build()
    count = options.suite or (20 if options.quick else 300)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(scratch, binary, 0.03 if options.quick else 0.3, count)
        write_models(bench.scratch, {**GRAPHS, **CHAINS, **suite(count)})
        times = 5 if options.quick else 11
        measures = {
            "ten": lambda: bench.group("ten"),
            "chains": lambda: bench.group("chains"),
            "alone": lambda: {name: bench.alone(name, times) for name in ("mlp", "attention")},
            "suite": lambda: bench.group("suite", calls=False),
        }
        answer = {"schema": 1, "versions": versions}
        if options.format == "markdown":
            print(", ".join(f"{package} {version}" for package, version in versions.items()))
        for part in options.only or measures:
            results = measures[part]()
            if part != "alone":
                answer[f"{part}_ratios"] = ratios(results)
                named = {f"{peer}, {turn}": list(lines.values()) for (peer, turn), lines in results.items()}
            answer[part] = results if part == "alone" else named
            if options.format == "markdown":
                REPORTS[part](results)
        if options.format == "json":
            print(json.dumps(answer))


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def head(*cells):
    row(*cells)
    print("|---|" + "---:|" * (len(cells) - 1))


def report_ratios(results):
    print("\nTimes that ours goes into theirs.\n")
    head("", "cold", "again", "a call (median)")
    for peer, by in ratios(results).items():
        row(peer, f"{by['cold']:.0f}x", f"{by['again']:.0f}x", f"{by['call']:.2f}x" if by["call"] else "")


def report_ten(ten):
    print("\nTen graphs: first result cold and again in ms, a call in µs.\n")
    head("", *(f"{peer}: {what}" for peer in PEERS for what in ("cold", "again", "call")))
    for name in GRAPHS:
        cells = []
        for peer in PEERS:
            cold, again = ten[peer, "cold"][name]["first_us"], ten[peer, "again"][name]["first_us"]
            cells += [f"{cold / 1e3:.2f}", f"{again / 1e3:.2f}", f"{ten[peer, 'calls'][name]['call_ns'] / 1e3:.2f}"]
        row(name, *cells)
    row("all", *(cell for peer in PEERS for cell in (
        f"{total(ten, peer, 'cold') / 1e3:.1f}", f"{total(ten, peer, 'again') / 1e3:.1f}", "")))
    report_ratios(ten)


def report_chains(chains):
    print("\nNine nodes over vectors, µs per call.\n")
    head("elements", "per-node", "whole", "fused", *PEERS[1:])
    for name in CHAINS:
        ours = chains["cachelift", "calls"][name]
        calls = [ours["per_node_ns"], ours["whole_ns"], ours["call_ns"]]
        calls += [chains[peer, "calls"][name]["call_ns"] for peer in PEERS[1:]]
        row(name.removeprefix("chain"), *(f"{call / 1e3:.2f}" for call in calls))


def report_alone(alone):
    print("\nA new process for one model, to its first result, in ms (median).\n")
    head("", "cachelift, warm", "ONNX Runtime", "ratio")
    for name, times in alone.items():
        ours, theirs = times["cachelift_us"], times["onnxruntime_us"]
        row(name, f"{ours / 1e3:.2f}", f"{theirs / 1e3:.2f}", f"{theirs / ours:.1f}x")


def report_suite(small):
    print(f"\nSuite of {len(small['cachelift', 'cold'])} graphs, all first results, ms.\n")
    head("", "cold", "again")
    for peer in PEERS:
        row(peer, *(f"{total(small, peer, turn) / 1e3:.1f}" for turn in ("cold", "again")))
    report_ratios(small)


REPORTS = {"ten": report_ten, "chains": report_chains, "alone": report_alone, "suite": report_suite}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter and less exact")
    parser.add_argument("--format", choices=["markdown", "json"], default="markdown")
    parser.add_argument("--only", action="append", choices=list(REPORTS), metavar="PART", help=f"one of {', '.join(REPORTS)}")
    parser.add_argument("--suite", type=int, metavar="N", help="graphs of the suite")
    parser.add_argument("--peer", action="append", choices=PEERS[1:], metavar="PEER", help=f"one of {', '.join(PEERS[1:])}")
    return parser.parse_args()


def build():
    command = ["cargo", "bench", "--bench", "graphs", "--no-run", "--message-format", "json"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    artifacts = [json.loads(line) for line in output.stdout.splitlines() if line.startswith("{")]
    return [a["executable"] for a in artifacts if a.get("executable") and a["target"]["name"] == "graphs"][0]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        peer, group, count, seconds, argument = sys.argv[2:]
        child = {"pytensor": child_pytensor, "onnxruntime": child_onnxruntime}[peer]
        child(graphs_of(group, int(count)), float(seconds), argument)
    elif Path(sys.prefix) != ENVIRONMENT:
        parse()
        if not ENVIRONMENT.exists():
            venv.create(ENVIRONMENT, with_pip=True)
            subprocess.run([ENVIRONMENT / "bin/pip", "install", "-q", *PACKAGES], check=True)
        os.execv(ENVIRONMENT / "bin/python", [ENVIRONMENT / "bin/python", __file__, *sys.argv[1:]])
    else:
        main(parse())
