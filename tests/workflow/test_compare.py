"""One call, from tables to the answer."""

import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from transformers import AutoModelForSequenceClassification

import subtune
from subtune.core.errors import SubtuneError
from tests.helpers.project import ROOT

TRAIN, DEV = (pd.read_csv(ROOT / "examples" / f"weather-{split}.csv") for split in ("train", "dev"))
CALL = """
import pandas as pd, subtune
train, dev = (pd.read_csv(f"{root}/examples/weather-{{split}}.csv") for split in ("train", "dev"))
print(subtune.compare(train, dev, model="{model}", minutes=0.1).answer)
"""


def records(folder) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("results/*/runs/[!.]*")}


@pytest.fixture(scope="module")
def killed_and_called_again(tmp_path_factory, tiny_bert):
    """A folder in which a call was killed while it trained, then called again, then once more."""
    folder = tmp_path_factory.mktemp("compare")
    code = CALL.format(root=ROOT, model=tiny_bert)
    with subprocess.Popen([sys.executable, "-c", code], cwd=folder, start_new_session=True) as call:
        while not records(folder):
            assert call.poll() is None
            time.sleep(0.2)
        call.kill()
    before = records(folder)
    for interrupted in (True, False):
        call = subprocess.Popen(
            [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        if interrupted:
            time.sleep(8)
            call.send_signal(signal.SIGINT)
        printed, _ = call.communicate(timeout=400)
    assert call.returncode == 0
    return folder, before, printed


def test_a_call_that_was_killed_goes_on_where_it_was(killed_and_called_again):
    folder, before, printed = killed_and_called_again
    after = records(folder)
    assert before and before.items() <= after.items()
    assert "scores" in printed.splitlines()[-1]


def test_the_results_are_objects_to_work_with(killed_and_called_again, tmp_path):
    folder, _, printed = killed_and_called_again
    [results] = folder.glob("results/*")
    answer = subtune.load(results)
    assert answer.answer == printed.splitlines()[-1]
    assert {"full", "bitfit"} <= set(answer.summary["method"])
    assert answer.runs["run"].is_unique
    assert answer.report.is_file()
    assert answer.front().axes
    assert "<table>" in answer._repr_html_()
    AutoModelForSequenceClassification.from_pretrained(answer.export("bitfit", tmp_path / "model"))
    with pytest.raises(SubtuneError, match="did you mean 'bitfit'"):
        answer.export("bitfix", tmp_path / "other")


def test_the_same_call_finds_everything_done(killed_and_called_again, tiny_bert, monkeypatch):
    folder = killed_and_called_again[0]
    monkeypatch.chdir(folder)
    before = records(folder)
    subtune.compare(TRAIN, DEV, model=str(tiny_bert), minutes=0.1)
    assert records(folder) == before


def test_results_of_another_call_are_not_mixed(killed_and_called_again, tiny_bert):
    [results] = killed_and_called_again[0].glob("results/*")
    with pytest.raises(SubtuneError, match=r"results of a call with other minutes"):
        subtune.compare(TRAIN, DEV, model=str(tiny_bert), minutes=5, results=results)


def test_an_argument_is_named_as_in_python(tmp_path):
    with pytest.raises(SubtuneError, match=r"^label: missing, and no column of"):
        subtune.compare(TRAIN.rename(columns={"label": "mood"}), DEV, results=tmp_path / "new")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_place_that_cannot_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(SubtuneError, match="results: cannot write"):
        subtune.compare(TRAIN, DEV, results=tmp_path / "new")


def test_importing_subtune_imports_no_library():
    code = "import sys, subtune; print(sorted({'torch', 'pandas', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n"
