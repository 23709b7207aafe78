"""Compares `cachelift run` with CPython and Numba on the same files. Ratios above 1 say that cachelift is faster.

    python3 benches/kernels/bench.py                makes target/bench-venv and installs Numba into it, once
    python3 benches/kernels/bench.py --quick        fewer rounds
    python3 benches/kernels/bench.py --format json  one object on stdout, described below
    python3 benches/kernels/bench.py --only sieve   one part: starts, direct, code, host, or one of the classics

`NUMBA_PYTHON` names a Python that has Numba, `CACHELIFT` a binary; else both are made.

Every time is of whole processes, from spawn to exit, the best of several. The run time of code is the difference between
many and few calls in one process, divided by their number, so that neither starting nor compiling counts; each file's
output is compared first.

The object of `--format json`, whose times are in seconds:

    {"format": 1, "quick": bool, "versions": {"cachelift", "python", "numpy", "numba", "cpu": text},
     "starts":  [{"name", "cachelift", "numba", "ratio", "goal"}],
     "direct":  [{"name", "wall", "user", "system", "faults"}],
     "code":    [{"name", "cachelift", "numba", "ratio"}], "geometric_mean": number,
     "host":    [{"name", "cachelift", "numba", "ratio"}]}

A part that was not asked for is empty, and the mean is then null.
"""

import argparse
import json
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
CLASSICS = sorted((HERE / "classic").glob("*.py"))
HOST = sorted((HERE / "host").glob("*.py"))
FUNCTIONS = 50
# What LLVM does that Cranelift does not, for the classics in which that shows; printed of those it wins by half.
LLVM = {
    "kmeans": "LLVM unrolls the loop over coordinates; here each round counts and branches",
    "levenshtein": "here registers are spilled around the calls that count references, and are read again in the loop",
    "matmul": "LLVM has vectors of 256 bits, Cranelift of 128",
}
NUMBA, NUMPY = "0.65.1", "2.4.6"


def arguments():
    parts = ["starts", "direct", "code", "host", *(file.stem for file in CLASSICS + HOST)]
    parser = argparse.ArgumentParser(description="Compares cachelift with Numba.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--format", choices=["markdown", "json"], default="markdown")
    parser.add_argument("--only", choices=parts, action="append", metavar="PART", help=", ".join(parts))
    return parser.parse_args()


def numba_python():
    given = os.environ.get("NUMBA_PYTHON")
    if given:
        return given
    venv = ROOT / "target" / "bench-venv"
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    probe = f"import numba, numpy; assert (numba.__version__, numpy.__version__) == ('{NUMBA}', '{NUMPY}')"
    if subprocess.run([python, "-c", probe], capture_output=True).returncode != 0:
        install = [python, "-m", "pip", "install", "--quiet", f"numba=={NUMBA}", f"numpy=={NUMPY}"]
        subprocess.run(install, check=True, stdout=sys.stderr)
    return str(python)


def binary():
    given = os.environ.get("CACHELIFT")
    if given:
        return given
    command = ["cargo", "build", "--release", "--quiet", "--bin", "cachelift"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "release" / "cachelift")


def versions(python, cachelift):
    ask = "import numba, numpy, platform; print(platform.python_version(), numpy.__version__, numba.__version__)"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    own = subprocess.run([cachelift, "--version"], capture_output=True, text=True, check=True)
    cpu = "unknown"
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0] if names else cpu
    names = dict(zip(["python", "numpy", "numba"], done.stdout.split()))
    return {"cachelift": own.stdout.split()[-1], **names, "cpu": cpu}


class Run:
    """What one process took."""

    def __init__(self, wall, usage, output):
        self.wall, self.output = wall, output
        self.user, self.system, self.faults = usage.ru_utime, usage.ru_stime, usage.ru_minflt


class Side:
    """One of the two: a command that runs a file, and an environment with a cache of its own."""

    def __init__(self, command, variable, rounds):
        self.command, self.variable, self.rounds = command, variable, rounds
        self.cache = None
        self.fresh()

    def fresh(self):
        """An empty cache."""
        self.close()
        self.cache = tempfile.mkdtemp()
        self.environment = {**os.environ, self.variable: self.cache}

    def close(self):
        if self.cache:
            shutil.rmtree(self.cache, ignore_errors=True)

    def run(self, *words):
        words = [*self.command, *map(str, words)]
        with tempfile.TemporaryFile() as out:
            streams = [(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_DUP2, out.fileno(), 2)]
            start = time.perf_counter()
            process = os.posix_spawn(words[0], words, self.environment, file_actions=streams)
            _, status, usage = os.wait4(process, 0)
            wall = time.perf_counter() - start
            out.seek(0)
            text = out.read().decode()
        if status != 0:
            sys.exit(f"{' '.join(words)}: {text}")
        return Run(wall, usage, text)

    def best(self, *words, rounds=None):
        runs = [self.run(*words) for _ in range(rounds or self.rounds)]
        return min(runs, key=lambda run: run.wall)


def fifty(folder, edited=False, called=True, functions=FUNCTIONS):
    """A program of functions that all differ, with a call of each; with `edited`, one constant is another."""
    lines = ["from numba import njit", ""]
    for n in range(functions):
        constant = n + 1000 if edited and n == functions // 2 else n
        lines += [
            "", "@njit(cache=True)", f"def f{n}(x):", "    total = 0", f"    for i in range(x + {n % 7}):",
            f"        total += (i * {constant + 3}) % {n + 11}", "        if total > 1000:", "            total -= 999",
            "    return total", "",
        ]
    lines += [f"print(f{n}({n + 20}))" for n in range(functions)] if called else ["print(0)"]
    file = folder / f"program{functions}{called}.py"
    file.write_text("\n".join(lines) + "\n")
    return file


def same(mine, other, what):
    if mine.output != other.output:
        sys.exit(f"{what}: cachelift printed\n{mine.output}and Numba\n{other.output}")


def row(name, ours, theirs, **more):
    return {"name": name, "cachelift": ours, "numba": theirs, "ratio": theirs / ours, **more}


def starts(ours, theirs, folder):
    """Starting a program of many functions: cold, warm, and after an edit."""
    empty = folder / "empty.py"
    empty.write_text("from numba import njit\nprint(0)\n")
    file = fifty(folder)

    def cold(side, rounds):
        runs = []
        for _ in range(rounds):
            side.fresh()
            runs.append(side.run(file))
        return min(runs, key=lambda run: run.wall)

    mine, other = cold(ours, ours.rounds), cold(theirs, 1)
    same(mine, other, file.name)
    # A difference of two small times: taken in turns, so that both see the same machine.
    def warm(side, rounds):
        runs = [(side.run(empty), side.run(file)) for _ in range(rounds)]
        return [min((run[at] for run in runs), key=lambda run: run.wall) for at in (0, 1)]

    (our_idle, our_warm), (their_idle, their_warm) = warm(ours, 12 * ours.rounds), warm(theirs, theirs.rounds)
    per = lambda run, idle: max(run.wall - idle.wall, 1e-6) / FUNCTIONS
    rows = [
        row("first call, cold, per function", per(mine, our_idle), per(other, their_idle), goal=30),
        row("warm start, whole process", our_warm.wall, their_warm.wall, goal=50),
        row("warm start, per function", per(our_warm, our_idle), per(their_warm, their_idle), goal=300),
    ]

    fifty(folder, edited=True)
    mine, other = ours.run(file), theirs.run(file)
    same(mine, other, file.name)
    rows.append(row("one edit, to the new result", mine.wall, other.wall, goal=100))
    return rows


def direct(ours, folder):
    """Where the time of a warm start goes: each line is a process that does one thing more than the one before."""
    empty = folder / "nothing.py"
    empty.write_text("print(0)\n")
    steps = [
        ("exec, link, exit (`--version`)", None),
        ("+ a program without kernels", empty),
        (f"+ parse and define {FUNCTIONS} kernels", fifty(folder, called=False)),
        ("+ open the store, one kernel", fifty(folder, functions=1)),
        (f"+ {FUNCTIONS} kernels, each called once", fifty(folder)),
    ]
    command, rows = ours.command, []
    for name, file in steps:
        ours.command = command if file else command[:1]
        words = [file] if file else ["--version"]
        ours.best(*words, rounds=2)
        run = ours.best(*words, rounds=8 * ours.rounds)
        rows.append({"name": name, "wall": run.wall, "user": run.user, "system": run.system, "faults": run.faults})
    ours.command = command
    return rows


def per_call(side, file, seconds):
    """The time of one call: as many are made as take this long."""
    few, many = 1, 11
    side.run(file, few)
    while True:
        took = max(side.run(file, many).wall - side.run(file, few).wall, 1e-4)
        if took >= seconds / 2:
            break
        many = few + math.ceil(min((many - few) * seconds / took * 1.1, 50 * many))
    most, least = side.best(file, many), side.best(file, few)
    return max(most.wall - least.wall, 1e-9) / (many - few)


def code(ours, theirs, files, seconds):
    """The run time of compiled code."""
    rows = []
    for file in files:
        same(ours.run(file, 3), theirs.run(file, 3), file.name)
        rows.append(row(file.stem, per_call(ours, file, seconds), per_call(theirs, file, seconds)))
        print(f"{file.stem}: {rows[-1]['ratio']:.2f}", file=sys.stderr)
    return rows


def geometric_mean(rows):
    return math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))


def time_text(seconds):
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def table(head, rows):
    print("\n| " + " | ".join(head) + " |")
    print("|---" + "|---:" * (len(head) - 1) + "|")
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


def markdown(result):
    names = result["versions"]
    print(f"cachelift {names['cachelift']} against Numba {names['numba']} (Python {names['python']}, NumPy {names['numpy']}), "
          f"{names['cpu']}. A ratio of 2 says that cachelift takes half the time.")
    if result["starts"]:
        rows = [(it["name"], time_text(it["cachelift"]), time_text(it["numba"]), f"{it['ratio']:.0f}×", f"{it['goal']}×")
                for it in result["starts"]]
        table([f"a program of {FUNCTIONS} functions", "cachelift", "Numba", "ratio", "goal"], rows)
    if result["direct"]:
        rows = [(it["name"], time_text(it["wall"]), time_text(it["user"]), time_text(it["system"]), str(it["faults"]))
                for it in result["direct"]]
        table(["a warm start, step by step", "wall", "user", "system", "page faults"], rows)
    for part, name in (("code", "run time of code, one call"), ("host", "host code, one round")):
        if result[part]:
            rows = [(it["name"], time_text(it["cachelift"]), time_text(it["numba"]), f"{it['ratio']:.2f}×") for it in result[part]]
            slow = [it["name"] for it in result[part] if it["ratio"] < 1 / 1.5 and it["name"] in LLVM]
            if part == "code" and result["geometric_mean"]:
                rows.append(("geometric mean", "", "", f"{result['geometric_mean']:.2f}×"))
            table([name, "cachelift", "Numba", "ratio"], rows)
            for stem in slow:
                print(f"\n{stem}: {LLVM[stem]}.")


def main():
    options = arguments()
    wanted = lambda part: not options.only or part in options.only
    python, cachelift = numba_python(), binary()
    rounds, seconds = (2, 0.1) if options.quick else (4, 0.4)
    ours = Side([cachelift, "run"], "CACHELIFT_DIR", rounds)
    theirs = Side([python], "NUMBA_CACHE_DIR", rounds)
    folder = pathlib.Path(tempfile.mkdtemp())
    pick = lambda files, part: [file for file in files if wanted(part) or wanted(file.stem)]
    try:
        result = {
            "format": 1,
            "quick": options.quick,
            "versions": versions(python, cachelift),
            "starts": starts(ours, theirs, folder) if wanted("starts") else [],
            "direct": direct(ours, folder) if wanted("direct") else [],
            "code": code(ours, theirs, pick(CLASSICS, "code"), seconds),
            "host": code(ours, theirs, pick(HOST, "host"), seconds),
        }
        result["geometric_mean"] = geometric_mean(result["code"]) if wanted("code") else None
    finally:
        shutil.rmtree(folder)
        ours.close()
        theirs.close()
    if options.format == "json":
        print(json.dumps(result, indent=1))
    else:
        markdown(result)


main()
