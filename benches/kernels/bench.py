"""Compares `cachelift run` with CPython and Numba on the same files. Prints ratios: above 1, cachelift is faster.

    python3 benches/kernels/bench.py             makes target/bench-venv and installs Numba into it, once
    NUMBA_PYTHON=/path/to/python python3 ...     takes a Python that has it
    python3 benches/kernels/bench.py --quick     fewer rounds

Every time is of whole processes, the best of several. The run time of code is the difference between many and few
calls in one process, so that neither starting nor compiling counts.
"""

import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FUNCTIONS = 50
QUICK = "--quick" in sys.argv
ROUNDS = 2 if QUICK else 5


def numba_python():
    given = os.environ.get("NUMBA_PYTHON")
    if given:
        return given
    venv = ROOT / "target" / "bench-venv"
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "numba==0.65.1", "numpy==2.4.6"], check=True)
    return str(python)


def build():
    given = os.environ.get("CACHELIFT")
    if given:
        return given
    command = ["cargo", "build", "--release", "--quiet", "--features", "kernel", "--bin", "cachelift"]
    subprocess.run(command, cwd=ROOT, check=True)
    return str(ROOT / "target" / "release" / "cachelift")


class Side:
    """One of the two: a command that runs a file, and an environment with a cache of its own."""

    def __init__(self, command, variable):
        self.command, self.variable = command, variable
        self.fresh()

    def fresh(self):
        self.cache = tempfile.mkdtemp()
        self.environment = {**os.environ, self.variable: self.cache}

    def run(self, file, *arguments):
        start = time.perf_counter()
        done = subprocess.run(
            [*self.command, str(file), *map(str, arguments)],
            cwd=file.parent, env=self.environment, capture_output=True, text=True,
        )
        took = time.perf_counter() - start
        if done.returncode != 0:
            sys.exit(f"{file}: {done.stdout}{done.stderr}")
        return took, done.stdout

    def best(self, file, *arguments, rounds=ROUNDS):
        runs = [self.run(file, *arguments) for _ in range(rounds)]
        return min(took for took, _ in runs), runs[0][1]


def fifty(folder, edited=False):
    """A program of functions that all differ, with a call of each; with `edited`, one constant is another."""
    lines = ["from numba import njit", ""]
    for n in range(FUNCTIONS):
        constant = n + 1000 if edited and n == FUNCTIONS // 2 else n
        lines += [
            "", "@njit(cache=True)", f"def f{n}(x):", "    total = 0", f"    for i in range(x + {n % 7}):",
            f"        total += (i * {constant + 3}) % {n + 11}", "        if total > 1000:", "            total -= 999",
            "    return total", "",
        ]
    lines += [f"print(f{n}({n + 20}))" for n in range(FUNCTIONS)]
    file = folder / "fifty.py"
    file.write_text("\n".join(lines) + "\n")
    return file


def report(name, ours, theirs, goal):
    ratio = theirs / ours
    mark = "" if ratio >= goal else "   below its goal"
    print(f"{name:44} {ours * 1e3:10.3f} ms {theirs * 1e3:10.1f} ms {ratio:8.1f} x  (goal {goal:g}){mark}")


def starts(ours, theirs):
    print(f"\n{FUNCTIONS} functions                                   cachelift      Numba       ratio")
    folder = pathlib.Path(tempfile.mkdtemp())
    empty = folder / "empty.py"
    empty.write_text("from numba import njit\nprint(0)\n")
    idle = [side.best(empty)[0] for side in (ours, theirs)]
    file = fifty(folder)

    def cold(side):
        times = []
        for _ in range(1 if side is theirs else ROUNDS):
            side.fresh()
            times.append(side.run(file))
        return min(took for took, _ in times), times[0][1]

    (our_cold, our_text), (their_cold, their_text) = cold(ours), cold(theirs)
    assert our_text == their_text, "they print different things"
    per = lambda took, nothing: max(took - nothing, 1e-6) / FUNCTIONS
    report("first call, per function", per(our_cold, idle[0]), per(their_cold, idle[1]), 30)
    (our_warm, _), (their_warm, _) = ours.best(file), theirs.best(file)
    report("warm start, whole process", our_warm, their_warm, 50)
    report("warm start, per function", per(our_warm, idle[0]), per(their_warm, idle[1]), 300)

    fifty(folder, edited=True)
    (our_edit, our_text), (their_edit, their_text) = ours.run(file), theirs.run(file)
    assert our_text == their_text, "they print different things"
    report("one edit, to the new result", our_edit, their_edit, 100)
    shutil.rmtree(folder)


def code(ours, theirs):
    print("\nrun time of code                             cachelift      Numba       ratio")
    ratios = []
    for file in sorted((HERE / "classic").glob("*.py")):
        def per_call(side):
            side.run(file, 1)
            few, many = 1, 11 if QUICK else 41
            (one, _), (all_, text) = side.best(file, few), side.best(file, many)
            return max(all_ - one, 1e-9) / (many - few), text

        (mine, my_text), (other, other_text) = per_call(ours), per_call(theirs)
        assert my_text == other_text, f"{file.name}: {my_text} is not {other_text}"
        ratios.append(other / mine)
        print(f"{file.stem:44} {mine * 1e3:10.3f} ms {other * 1e3:10.3f} ms {other / mine:8.2f} x")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{'geometric mean':44} {'':13} {'':13} {mean:8.2f} x  (goal 0.5, none below 0.25)")


def main():
    python, binary = numba_python(), build()
    versions = "import numba, numpy, sys; print(f'Python {sys.version.split()[0]}, NumPy {numpy.__version__}, Numba {numba.__version__}')"
    print(subprocess.run([python, "-c", versions], capture_output=True, text=True, check=True).stdout.strip())
    ours = Side([binary, "run"], "CACHELIFT_DIR")
    theirs = Side([python], "NUMBA_CACHE_DIR")
    starts(ours, theirs)
    code(ours, theirs)


main()
