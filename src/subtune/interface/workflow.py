"""Calls of Snakemake: in the place of this process, or beside it with a progress bar or lines."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout, snakemake_command, workflow_directory
from subtune.init.machine_speed import count_cores, count_jobs_at_once

# Options of Snakemake that say how many jobs run at once.
PARALLEL = ("-c", "--cores", "-j", "--jobs", "--profile")
# Lines of a failed call's log that its error shows.
LAST_LINES = 12
SECONDS_BETWEEN_LOOKS = 0.5
# Lines of the log that `subtune.interface.progress` has written.
PROGRESS = re.compile(rb"[\d:]+  \d+ of \d+ jobs")
BAR = "{desc}: {n_fmt} of {total_fmt} |{bar}| {elapsed} {postfix}"


def call_snakemake(arguments: Sequence[str]) -> NoReturn:
    """Become Snakemake with this workflow.

    Without an option about cores all are used. A profile of the workflow is found by its name.
    """
    words = [*arguments]
    for place, word in enumerate(words[:-1], start=1):
        profile = workflow_directory() / words[place]
        if word == "--profile" and not Path(words[place]).exists() and profile.is_dir():
            words[place] = str(profile)
    parallel = [] if any(word.startswith(PARALLEL) for word in words) else _all_cores()
    command = snakemake_command(*parallel, *words)
    os.execv(command[0], command)


def _all_cores() -> list[str]:
    """Return Snakemake's options for every core and, if there is one, the GPU.

    With ``=`` no option takes a target for one of its values.
    """
    cores = count_cores()
    gpu = ["--resources=gpu=1"] if count_jobs_at_once() < cores else []
    return [f"--cores={cores}", *gpu]


def train_all(
    configuration: Path,
    results: Path,
    runs: Collection[str],
    directory: Path,
    targets: Sequence[str] = (),
) -> None:
    """Make everything that a configuration asks for, or targets, with a progress bar of its runs.

    Without a terminal lines say the progress. The configuration's paths begin in ``directory``.

    An interrupt stops Snakemake as Ctrl-C does: runs keep checkpoints, from which the next call
    goes on. A second interrupt does not wait for checkpoints. A call whose kernel was killed goes
    on by itself, and the next one waits for it.

    Raises:
        SubtuneError: a job failed. The text ends with the last lines of the log.
    """
    log = results / "snakemake.log"
    options = [f"--configfile={configuration}", f"--directory={directory}", "--nolock"]
    options += ["--rerun-incomplete", "--nocolor", *_all_cores(), *targets]
    places = [Path(Layout(str(results)).records(), run) for run in runs]
    with log.open("ab") as file, log.open("rb") as lines, _progress_bar(len(places)) as bar:
        lines.seek(0, os.SEEK_END)
        show = partial(_show, bar, places, lines)
        _wait_for_others(file, show)
        start = file.tell()
        # Snakemake and its jobs hold the open file, which is the lock. An interrupt is for this
        # process alone, which then stops them.
        process = subprocess.Popen(
            snakemake_command(*options),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                show()
                time.sleep(SECONDS_BETWEEN_LOOKS)
        except BaseException:
            print("stopping; runs write checkpoints", file=sys.stderr, flush=True)
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            raise
    if process.returncode:
        said = log.read_bytes()[start:].decode(errors="replace").strip().splitlines()
        raise SubtuneError("\n".join([f"training stopped; {log} ends with:", *said[-LAST_LINES:]]))


def _wait_for_others(file: IO[bytes], show: Callable[[], object]) -> None:
    """Lock a file once no other process has it."""
    waits = False
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not waits:
                print("an earlier call works here; this one waits", file=sys.stderr, flush=True)
            waits = True
            show()
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _progress_bar(runs: int) -> Any:
    is_seen = sys.stderr.isatty() or "ipykernel" in sys.modules
    with warnings.catch_warnings():
        # A notebook without widgets gets a bar of text.
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm

        return tqdm(total=runs, desc="runs", disable=not is_seen, bar_format=BAR)


def _show(bar: Any, places: Sequence[Path], log: IO[bytes]) -> None:
    """Show the recorded runs; without a bar, what Snakemake has said of its progress."""
    for line in log if bar.disable else ():
        if PROGRESS.match(line):
            print(line.decode(), end="", file=sys.stderr, flush=True)
    bar.n = sum(place.exists() for place in places)
    bar.set_postfix_str("tables and figures" if bar.n == bar.total else "training")
