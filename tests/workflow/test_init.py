"""A table, one command, and the workflow to its end."""

import re
import shlex
import subprocess
import sys

import pandas as pd
import pytest

from subtune import config
from tests.helpers.project import BIN, Project
from tests.helpers.tables import glue_csv

# Changes that make a test of a configuration that would take minutes.
SHORTER = {r"epochs: \d+": "epochs: 1", r"seeds: \[.*\]": "seeds: [0]", r"\n      lora-I: .*": ""}


def test_what_init_says_to_call_trains_and_answers(tmp_path, tiny_bert, glue_dir):
    directory = Project(tmp_path / "init", tiny_bert).directory
    train, dev = glue_csv(glue_dir, "cola", directory, rows=96)
    lines = dev.read_text(encoding="utf-8").splitlines(keepends=True)
    dev.write_text("".join(lines[:65]), encoding="utf-8")
    test = directory / "test.csv"
    test.write_text("".join([lines[0], *lines[65:]]), encoding="utf-8")
    files = (
        "--train",
        train.name,
        "--dev",
        dev.name,
        "--test",
        test.name,
        "--to",
        "first words.yaml",
    )
    init = [sys.executable, BIN / "subtune", "init", *files, "--model", tiny_bert]
    said = _printed(init, directory)
    path = directory / "first words.yaml"
    text = path.read_text()
    for pattern, replacement in SHORTER.items():
        text = re.sub(pattern, replacement, text)
    path.write_text(text)

    (command,) = re.findall(r"^    (\S*subtune run .*)$", said, re.MULTILINE)
    (answers,) = re.findall(r"results/\S+\.md", said)
    # Without these targets the command makes everything else, too.
    targets = [answers, answers.replace("answers.md", "runs.csv")]
    _printed([BIN / "subtune", *shlex.split(command)[1:], *targets], directory)
    assert "cola" in (directory / answers).read_text()
    runs = pd.read_csv(directory / config.read(path).results / "runs.csv")
    assert set(runs["method"]) == {"full", "bitfit", "layernorm", "frozen", "embeddings"}

    # Dev rows choose, test rows judge.
    assert "test.csv: 32 rows to judge by, which choose nothing" in said
    results = directory / config.read(path).results
    summary = pd.read_csv(results / "summary.csv").set_index("method")
    for row in runs.drop_duplicates("method").to_dict("records"):
        history = pd.read_csv(results / "runs" / row["run"] / "history.csv")
        metric = row["metric"]
        best = history.loc[history[f"validation/{metric}"].idxmax()]
        assert summary.loc[row["method"], "score"] == pytest.approx(best[f"test/{metric}"])


def _printed(command, directory) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
