"""The real download code, against a local server that answers as the hub does."""

import json
import shutil
from pathlib import Path

import datasets
import huggingface_hub
import pytest

from subtune.comparison.splits import find_splits
from subtune.config.checks import check_config
from subtune.core.errors import SubtuneError
from subtune.data.load import load_rows
from subtune.data.sources import OFFICIAL_NAMES
from subtune.models.model_files import fetch_model
from subtune.plan.plan import make_plan
from subtune.runs.spec import DataSpec, ModelSpec
from subtune.tasks import TASKS
from tests.helpers.hub import COMMIT, MAIN, MODEL, NEXT_COMMIT, serving, write_repositories
from tests.helpers.project import Project

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def root(tmp_path_factory, tiny_bert) -> Path:
    """The directory with the hub's files."""
    return write_repositories(tmp_path_factory.mktemp("hub"), tiny_bert)


@pytest.fixture
def reach(monkeypatch, tmp_path):
    """A function that points this process, with an empty cache, to a hub's address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")

    # The library waits before it asks again.
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    template = huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE
    path = template.removeprefix(huggingface_hub.constants.ENDPOINT)

    def reach(address: str) -> None:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        monkeypatch.setattr(
            huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + path
        )
        monkeypatch.setattr(datasets.config, "HF_ENDPOINT", address)

    return reach


@pytest.fixture
def hub(root, reach):
    """The address of a local hub, which this process then uses."""
    with serving(root) as address:
        reach(address)
        yield address
    (root / MAIN).write_text(COMMIT)


def rows_of(name: str, revision: str = COMMIT) -> dict[str, dict]:
    """Return the columns of each of a task's splits on the hub."""
    task = TASKS[name]
    splits = task.labelled_splits if name in OFFICIAL_NAMES else (*task.labelled_splits, *task.test)
    rows = load_rows(DataSpec(task=task, source="hub", version=revision, splits=splits))
    return {split: rows[split].to_dict() for split in rows}


def test_glue_is_downloaded_at_a_revision(hub):
    rows = rows_of("mrpc")
    texts = {"idx": [7, 9], "text_a": ["a b", "c"], "text_b": ["d", "e f"], "label": [1, 0]}
    assert rows["train"] == texts | {"place": ["row 1", "row 2"], "set": [0, 1]}
    assert rows["test"]["label"] == [-1, -1]


def test_the_diagnostic_set_comes_with_mnli(hub):
    rows = rows_of("mnli")
    texts = {"idx": [0], "text_a": ["ax"], "text_b": ["b"], "label": [-1]}
    assert rows["diagnostic"] == texts | {"place": ["row 1"], "set": [0]}
    assert rows["test_mismatched"]["text_a"] == ["mnli"]


def test_a_download_that_fails_says_why(hub, reach):
    with pytest.raises(SubtuneError, match=f"could not download nyu-mll/glue at {'f' * 40}"):
        rows_of("mrpc", "f" * 40)
    reach(NOWHERE)
    with pytest.raises(SubtuneError, match=r"source: could not download .* check the internet"):
        rows_of("mrpc")


def test_a_model_is_downloaded_without_weights_of_other_formats(hub, tmp_path):
    fetch_model(
        ModelSpec(source="hub", repository=MODEL, version="main"), MODEL, tmp_path / "model"
    )
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.json"}


@pytest.fixture
def planned(tmp_path):
    """A function that plans a run of a model at a branch, in the same results."""

    def planned() -> tuple[set[str], str]:
        """Return the runs, and the commit of the model."""
        settings = {"models": ["tiny"], "tasks": ["rte"], "methods": {"full": [1e-3]}}
        data = {"results": str(tmp_path / "results")}
        data["experiments"] = {"mine": settings | {"epochs": 1, "batch_size": 8}}
        made = make_plan(check_config(data | {"models": {"tiny": {"hub": MODEL}}}))
        [model] = made.models.values()
        return set(made.runs), model.version

    return planned


@pytest.mark.fault(
    "files",
    "a model's branch gets a new commit",
    "ignored until you delete its line in `pinned.json`",
)
def test_a_branch_is_the_commit_of_the_first_plan_until_its_line_is_deleted(
    hub, reach, planned, root, tmp_path
):
    first = planned()
    assert first[1] == COMMIT
    (root / MAIN).write_text(NEXT_COMMIT)
    reach(NOWHERE)
    assert planned() == first
    reach(hub)
    kept = tmp_path / "results" / "pinned.json"
    commits = json.loads(kept.read_text())
    assert commits.pop(f"{MODEL}@main") == COMMIT
    kept.write_text(json.dumps(commits))
    runs, version = planned()
    assert version == NEXT_COMMIT
    assert not runs & first[0]


def test_a_models_files_on_the_hub_say_its_pooling_once(hub, planned, root, tmp_path):
    runs = planned()[0]
    (root / MODEL / "1_Pooling").mkdir()
    (root / MODEL / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    modules = [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
    (root / MODEL / "modules.json").write_text(json.dumps(modules))
    try:
        kept = tmp_path / "results" / "pinned.json"
        assert planned()[0] == runs
        kept.unlink()
        assert not planned()[0] & runs
        assert json.loads(kept.read_text())[f"pooling of {MODEL}@{COMMIT}"] == "mean"
    finally:
        shutil.rmtree(root / MODEL / "1_Pooling")
        (root / MODEL / "modules.json").unlink()


def test_a_branch_that_cannot_be_planned_is_one_line(reach, planned):
    reach(NOWHERE)
    with pytest.raises(SubtuneError) as error:
        planned()
    asked = f"models.tiny.revision: cannot get the commit of {MODEL} at main from the hub ("
    assert str(error.value).startswith(asked)
    assert "write a commit (40 hexadecimal digits), or run this once with" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.nightly
@pytest.mark.fault("files", "no network", "everything works after the downloads")
def test_after_the_downloads_nothing_needs_a_network(hub, tmp_path, tiny_bert, no_network):
    project = Project(tmp_path / "project", tiny_bert)
    project.config |= {"source": "hub", "hub_cache": "downloads"}
    project.config["models"] = {"tiny": {"hub": MODEL}}
    experiment = project.config["experiments"]["layernorm"]
    experiment |= {"tasks": ["mrpc"], "fractions": None}
    project.environment = {"HF_ENDPOINT": hub, "NO_PROXY": "127.0.0.1"}
    project.run(project.config, "--until", "dataset", "model", "--", "results/runs.csv")
    assert json.loads((project.directory / "results" / "pinned.json").read_text()) == {
        f"{MODEL}@main": COMMIT,
        f"pooling of {MODEL}@{COMMIT}": "first",
    }
    assert list((project.directory / "downloads").glob("models--*"))
    project.before = no_network
    project.run(project.config, "--", "results/runs.csv")
    specs = list((project.directory / "results" / "runs").glob("*/spec.json"))
    assert {json.loads(spec.read_text())["model"]["version"] for spec in specs} == {COMMIT}


def test_any_dataset_of_the_hub_is_read_with_its_class_names_at_a_pinned_commit(hub, tmp_path):
    splits = find_splits("acme/moods", "test")
    for name in ("train", "validation"):
        rows = splits[name].read_frame(tmp_path).to_dict("list")
        assert rows == {"text": ["a", "b"], "label": ["happy", "sad"]}
    assert COMMIT in (tmp_path / "pinned.json").read_text()
    said = r"^--dev: acme/moods has no split 'valid', expected one of its splits \(train, test\)"
    with pytest.raises(SubtuneError, match=said):
        find_splits("acme/moods", "valid")["validation"].read_frame(tmp_path)
