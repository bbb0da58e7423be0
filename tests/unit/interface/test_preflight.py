"""`subtune check` reports mistakes before anything runs."""

import pytest
import yaml

from subtune import cli
from tests.helpers.tables import write

COLUMNS = ("sentence", "label")
ROWS = [{"sentence": f"a sentence {n}", "label": "good" if n % 2 else "bad"} for n in range(8)]


@pytest.fixture
def settings(tmp_path, monkeypatch, minilm):
    monkeypatch.chdir(tmp_path)
    files = {split: f"{split}.csv" for split in ("train", "validation")}
    for name in files.values():
        write(tmp_path / name, COLUMNS, ROWS)
    task = {"text": ["sentence"], "labels": ["bad", "good"], "metrics": ["accuracy"]}
    experiment = {"models": ["minilm"], "tasks": ["mine"], "methods": {"bitfit": [1e-3]}}
    return {
        "source": "builtin",
        "models": {"minilm": {"path": str(minilm)}},
        "tasks": {"mine": {"files": files} | task},
        "experiments": {"first": experiment | {"epochs": 1, "batch_size": 4}},
    }


def checked(settings, capsys):
    """The exit status of `subtune check`, and what it says."""
    with open("mine.yaml", "w") as file:
        yaml.safe_dump(settings, file)
    status = cli.main(["check", "mine.yaml"])
    said = capsys.readouterr()
    return status, said.out + said.err


def test_what_can_be_run_has_no_problems(settings, capsys):
    assert checked(settings, capsys) == (
        0,
        "mine.yaml: 1 experiment(s), 1 run(s), no problems found\n",
    )


CASES = {
    "no such file": (
        lambda s: s["tasks"]["mine"]["files"].update(train="no.csv"),
        "tasks.mine.files.train: found no file 'no.csv'",
    ),
    "no such split": (
        lambda s: s["tasks"]["mine"]["files"].pop("validation"),
        "tasks.mine.files: 'validation' is missing, expected a path",
    ),
    "no such column": (
        lambda s: s["tasks"]["mine"].update(text=["sentense"]),
        "train.csv: line 2: no such column: found 'sentense', expected one of sentence, label",
    ),
    "no such label": (
        lambda s: s["tasks"]["mine"].update(labels=["²", "³"]),
        "train.csv: line 2: label: found 'bad', expected one of ², ³",
    ),
    "a pattern that matches nothing": (
        lambda s: with_method(s, {"parameters": ["nothing.**"]}),
        "experiments.first.methods: 'own' of model 'minilm' on task 'mine': selection: pattern "
        "'nothing.**' matches no parameter of the model",
    ),
    "a method of more layers than the model has": (
        lambda s: s["experiments"]["first"]["methods"].update({"SPAFIT-4-9-I": [1e-3]}),
        "'SPAFIT-4-9-I' of model 'minilm' on task 'mine': selection: pattern",
    ),
    "results in the place of a file": (
        lambda s: s.update(results="train.csv/runs"),
        "results: found the file 'train.csv', expected a directory",
    ),
    "results of a name that no file system takes": (
        lambda s: s.update(results="r" * 300),
        f"results: {'r' * 57}...: File name too long",
    ),
    "no such directory of GLUE's files": (
        lambda s: s.update(source="tsv", glue_dir="no-glue", experiments=with_task(s, "rte")),
        "glue_dir: found no directory 'no-glue', expected GLUE's official layout",
    ),
}


def with_method(settings, selection):
    settings["selections"] = {"own": selection}
    settings["experiments"]["first"]["methods"]["own"] = [1e-3]


def with_task(settings, task):
    return {"first": settings["experiments"]["first"] | {"tasks": [task]}}


@pytest.mark.parametrize(("change", "message"), CASES.values(), ids=CASES)
def test_what_cannot_be_run_gets_one_line(settings, capsys, change, message):
    change(settings)
    status, said = checked(settings, capsys)
    assert status == 1
    assert message in said
    assert len(said.splitlines()) == 1


def test_a_layer_range_takes_what_layers_there_are(settings, capsys):
    with_method(settings, {"parameters": ["encoder.layer.2-99999999.**.bias"]})
    assert checked(settings, capsys)[0] == 0


def test_what_only_the_hub_can_tell_is_no_mistake_where_it_cannot_be_reached(
    settings, capsys, monkeypatch
):
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost:9")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://localhost:9")
    settings["models"]["minilm"] = {"hub": "someone/some-encoder"}
    status, said = checked(settings, capsys)
    assert status == 0
    assert "no problems found, but not all could be looked at: models.minilm.revision: " in said
