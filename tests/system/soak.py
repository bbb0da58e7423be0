"""The demo while its processes are killed at random: python -m tests.system.soak --help.

It takes half an hour, so that no test runs it. What it ends with is compared with a demo that
nobody disturbed.
"""

import argparse
import contextlib
import filecmp
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pandas as pd
import psutil

from tests.helpers.project import SNAKEMAKE, copy_workflow

RESULTS = Path("results/demo")
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
# Times, dates and versions of the code differ between two trainings of the same run.
TIMES = ("seconds", "recorded", "commit", "versions.subtune")
# Tables that show what a run took, beside what it scored.
TIMED = ("summary.md", "summary.tex", "runs.parquet", "runs_columns.csv")
COMPARED = ("*.csv", "*.md", "*.tex", "*.safetensors", "*.parquet")
PASSED_OVER = ("logs", "benchmarks", "checkpoints", "damaged")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30, help="of kills; default: 30")
    parser.add_argument("--pause", type=float, default=30, help="mean seconds between two kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--undisturbed", type=Path, help="a directory in which the demo has run")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="soak-"))
    undisturbed = options.undisturbed or copy_workflow(place / "undisturbed")
    if not (undisturbed / RESULTS / "report.html").exists():
        subprocess.run([*SNAKEMAKE, "--profile", "demo"], cwd=undisturbed, check=True)
    rng = random.Random(options.seed)
    end = time.monotonic() + 60 * options.minutes
    rounds, differing = 0, []
    while time.monotonic() < end:
        rounds += 1
        directory = copy_workflow(place / f"disturbed-{rounds}")
        kills, calls = disturb(directory, end, options.pause, rng)
        differing += [
            f"{directory / RESULTS / path}: {problem}"
            for path, problem in differences(undisturbed / RESULTS, directory / RESULTS)
        ]
        print(f"{directory}: {calls} calls of snakemake; killed", dict(kills.most_common()))
    print(f"{rounds} demo(s) in {options.minutes:g} minutes; {len(differing)} file(s) differ")
    print(*differing, sep="\n")
    return bool(differing)


def disturb(
    directory: Path, end: float, pause: float, rng: random.Random
) -> tuple[Counter[str], int]:
    """Run the demo until it is done, and until `end` kill a process of it now and then.

    Returns:
        How often a process of which kind was killed by which signal, and the calls of snakemake.
    """
    kills: Counter[str] = Counter()
    for calls in count(1):
        with (directory / "output.log").open("a") as output:
            # A call that was killed leaves its lock, and snakemake says what to call.
            subprocess.run([*SNAKEMAKE, "--unlock"], cwd=directory, stdout=output, stderr=output)
            process = subprocess.Popen(
                [*SNAKEMAKE, "--profile", "demo"], cwd=directory, stdout=output, stderr=output
            )
            while time.monotonic() < end:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(rng.expovariate(1 / pause))
                    break
                kills.update(kill_one(process.pid, rng))
            if process.wait() == 0:
                return kills, calls
            if time.monotonic() > end + 3600:
                break
    raise SystemExit(f"{directory} does not end; see output.log there")


def kill_one(root: int, rng: random.Random) -> Iterator[str]:
    """Send a signal to one process of a tree, drawn at random; and say to which."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(root)
        process = rng.choice([parent, *parent.children(recursive=True)])
        sent = rng.choice(SIGNALS)
        kind = kind_of(process.cmdline())
        process.send_signal(sent)
        yield f"{kind} {signal.Signals(sent).name}"


def kind_of(command: list[str]) -> str:
    """Return the kind of a process: a job's script, or snakemake."""
    if not command:
        return "ended"
    script = Path(command[-1]).name.split(".", 1)[-1]
    return script if script.endswith(".py") else "snakemake"


def differences(expected: Path, actual: Path) -> Iterator[tuple[Path, str]]:
    """The files of results that are not what they are elsewhere, but for what a run took."""
    names = files(expected)
    for path in sorted(names | files(actual)):
        if not (expected / path).exists() or not (actual / path).exists():
            yield path, f"only in {(actual if (actual / path).exists() else expected)}"
        elif not same(expected / path, actual / path):
            yield path, "differs"


def files(results: Path) -> set[Path]:
    paths = (path.relative_to(results) for name in COMPARED for path in results.rglob(name))
    return {path for path in paths if path.parts[0] not in PASSED_OVER and path.name not in TIMED}


def same(expected: Path, actual: Path) -> bool:
    if expected.suffix != ".csv":
        return filecmp.cmp(expected, actual, shallow=False)
    tables = (pd.read_csv(path, dtype=str) for path in (expected, actual))
    first, second = (table.drop(columns=timed(table.columns)) for table in tables)
    return first.equals(second)


def timed(columns: Iterable[str]) -> list[str]:
    return [column for column in columns if column.split(".")[-1] in TIMES]


if __name__ == "__main__":
    sys.exit(main())
