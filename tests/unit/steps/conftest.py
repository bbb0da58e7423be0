"""A small configuration of one run."""

import pytest

from tests.helpers.tables import write

ROWS = [{"sentence": f"a sentence {n}", "label": "good" if n % 2 else "bad"} for n in range(8)]


@pytest.fixture
def settings(tmp_path, monkeypatch, minilm):
    monkeypatch.chdir(tmp_path)
    files = {split: f"{split}.csv" for split in ("train", "validation")}
    for name in files.values():
        write(tmp_path / name, tuple(ROWS[0]), ROWS)
    task = {"text": ["sentence"], "labels": ["bad", "good"], "metrics": ["accuracy"]}
    experiment = {"models": ["minilm"], "tasks": ["mine"], "methods": {"bitfit": [1e-3]}}
    return {
        "source": "builtin",
        "models": {"minilm": {"path": str(minilm)}},
        "tasks": {"mine": {"files": files} | task},
        "experiments": {"first": experiment | {"epochs": 1, "batch_size": 4}},
    }
