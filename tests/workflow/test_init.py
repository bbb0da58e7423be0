"""The configuration and the command of `subtune init`."""

import re
import shlex
import subprocess
import sys

from tests.helpers.project import BIN, job_counts
from tests.helpers.tables import glue_csv


def test_what_init_says_to_call_is_planned(tmp_path, tiny_bert, glue_dir):
    """tests/workflow/test_compare.py trains such a configuration."""
    train, dev = glue_csv(glue_dir, "cola", tmp_path, rows=96)
    lines = dev.read_text(encoding="utf-8").splitlines(keepends=True)
    dev.write_text("".join(lines[:65]), encoding="utf-8")
    test = tmp_path / "test.csv"
    test.write_text("".join([lines[0], *lines[65:]]), encoding="utf-8")
    files = ("--train", train.name, "--dev", dev.name, "--test", test.name)
    init = [sys.executable, BIN / "subtune", "init", *files, "--model", tiny_bert]
    said = _printed([*init, "--to", "first words.yaml"], tmp_path)
    assert "test.csv: 32 rows to judge by, which choose nothing" in said
    (command,) = re.findall(r"^    (\S*subtune run .*)$", said, re.MULTILINE)
    planned = _printed([BIN / "subtune", *shlex.split(command)[1:], "-n"], tmp_path)
    assert job_counts(planned)["dataset"] == 1 and job_counts(planned)["train"] >= 2
    (answers,) = re.findall(r"results/\S+\.md", said)
    assert answers in planned


def _printed(command, directory) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
