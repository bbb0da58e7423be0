"""Mistakes that are found before anything runs."""

import shutil
from pathlib import Path

import pytest
import yaml

from subtune import cli
from subtune.config.checks import check_config
from subtune.steps.context import plan_and_check
from tests.helpers.project import ROOT


@pytest.fixture
def checked(settings, capsys):
    """A function that returns the status and output of `subtune plan` for the settings."""

    def check():
        with open("mine.yaml", "w") as file:
            yaml.safe_dump(settings, file)
        status = cli.main(["plan", "mine.yaml"])
        said = capsys.readouterr()
        return status, said.out + said.err

    return check


@pytest.mark.fault(
    "models",
    "a tokenizer that is unreadable or knows no word",
    "rejected; many unknown tokens are reported",
)
def test_a_tokenizer_that_knows_no_word_of_a_table_is_a_problem(checked, settings, minilm):
    shutil.copytree(minilm, "mine")
    Path("mine", "tokenizer.json").unlink()
    Path("mine", "vocab.txt").rename("mine/spm.model")
    settings["models"] = {"minilm": {"path": "mine"}}
    status, said = checked()
    assert status == 1
    assert said.startswith("models.minilm: mine: the tokenizer has no token for any word of ")


def test_a_configuration_that_can_run_has_no_problems(checked):
    status, said = checked()
    assert status == 0
    assert said.splitlines()[-1] == "Recorded so far: 0 of 1 runs."


CASES = {
    "no such column": (
        lambda s: s["tasks"]["mine"].update(text=["sentense"]),
        "train.csv: line 2: no column 'sentense', expected one of sentence, label",
    ),
    "a method of more layers than the model has": (
        lambda s: s["experiments"]["first"]["methods"].update({"SPAFIT-4-9-I": [1e-3]}),
        "'SPAFIT-4-9-I' of model 'minilm' on task 'mine': selection: pattern",
    ),
}


@pytest.mark.parametrize(("change", "message"), CASES.values(), ids=CASES)
def test_a_configuration_that_cannot_run_gets_one_line(settings, checked, change, message):
    change(settings)
    status, said = checked()
    assert status == 1
    assert message in said
    assert len(said.splitlines()) == 1


def test_a_hub_that_cannot_be_reached_is_said_in_one_line(settings, checked, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost:9")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://localhost:9")
    settings["models"]["minilm"] = {"hub": "someone/some-encoder"}
    status, said = checked()
    assert status == 1
    assert said.startswith("models.minilm.revision: ") and said.count("\n") == 1


def test_code_of_baselines_metrics_and_tuners_is_an_input_of_the_plan(settings):
    settings["baselines"] = {"own": {"estimator": "my_models.py:make", "reads": "texts"}}
    settings["tasks"]["mine"]["metrics"] = ["accuracy", "my_metrics.py:cost"]
    settings["experiments"]["first"]["methods"]["own"] = None
    tuner = {"config": "my_tuner.py:ScaleConfig", "model": "my_tuner.py:ScaleModel"}
    settings["selections"] = {"scale": {"peft": tuner | {"target_modules": ["query"]}}}
    settings["experiments"]["first"]["methods"]["scale"] = [1e-3]
    own = ("my_models.py", "my_metrics.py", "my_tuner.py")
    for name in own:
        shutil.copy(ROOT / "examples" / name, name)
    files = plan_and_check(check_config(settings)).input_files()
    assert {Path(name).resolve() for name in own} <= files
