"""The real download code, against a local server that answers as the hub does."""

import functools
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import datasets
import pytest

from tests.helpers.project import ROOT, SNAKEMAKE, Project

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NEXT_COMMIT = "89abcdef0123456789abcdef0123456789abcdef"
GLUE = "datasets/nyu-mll/glue"
SQUAD = "datasets/rajpurkar/squad"
TREEBANKS = "datasets/universal-dependencies/universal_dependencies"
MOODS = "datasets/acme/moods"
MODEL = "acme/tiny-bert"
MAIN = "main.txt"


class Hub(http.server.BaseHTTPRequestHandler):
    """The part of the hub's API that a download uses: repository info, and files by revision.

    `MAIN` in the root holds the commit of the branch `main`. All commits have the same files.
    """

    def __init__(self, *args, root: Path):
        self.root = root
        super().__init__(*args)

    def commit(self, revision: str) -> str | None:
        commits = (COMMIT, NEXT_COMMIT)
        revision = (self.root / MAIN).read_text() if revision == "main" else revision
        return revision if revision in commits else None

    def do_GET(self):
        self.answer(body=True)

    def do_HEAD(self):
        self.answer(body=False)

    def answer(self, body: bool):
        path = self.path.split("?")[0]
        if path.startswith("/api/"):
            return self.describe(path.removeprefix("/api/").removeprefix("models/"), body)
        repository, _, rest = path.lstrip("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        file, commit = self.root / repository / name, self.commit(revision)
        if not file.is_file() or not commit:
            return self.send(404, b"", {"X-Error-Code": "EntryNotFound"}, body)
        content = file.read_bytes()
        etag = hashlib.sha256(content).hexdigest()
        return self.send(200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": commit}, body)

    def describe(self, path: str, body: bool):
        """Describe a repository at a revision, or list its files there."""
        repository, _, rest = path.partition("/revision/" if "/revision/" in path else "/tree/")
        revision, _, below = rest.partition("/")
        folder = self.root / repository
        commit = self.commit(revision)
        if not commit or not folder.is_dir():
            return self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"}, body)
        paths = (folder / below).glob("*" if "recursive=false" in self.path else "**/*")
        files = {str(path.relative_to(folder)): path for path in paths}
        if not files:
            return self.send(404, b"{}", {"X-Error-Code": "EntryNotFound"}, body)
        answer = [
            {"type": "file" if file.is_file() else "directory", "path": name, "oid": "0" * 40}
            | {"size": file.stat().st_size}
            for name, file in files.items()
        ]
        if "/revision/" in path:
            answer = {"id": repository, "sha": commit, "private": False, "tags": []}
            answer["siblings"] = [{"rfilename": n} for n, path in files.items() if path.is_file()]
        return self.send(200, json.dumps(answer).encode(), {}, body)

    def send(self, status: int, content: bytes, headers: dict[str, str], body: bool):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """The directory with the hub's files."""
    return tmp_path_factory.mktemp("hub")


@pytest.fixture
def move_main(root):
    """A function that moves the branch `main` to another commit during the test."""
    yield (root / MAIN).write_text
    (root / MAIN).write_text(COMMIT)


@pytest.fixture(scope="module")
def hub(root, tiny_bert):
    (root / MAIN).write_text(COMMIT)
    shutil.copytree(tiny_bert, root / MODEL)
    (root / MODEL / "pytorch_model.bin").write_bytes(b"never wanted")
    labels = datasets.ClassLabel(names=["not_equivalent", "equivalent"])
    for split, label in (("train", [1, 0]), ("validation", [1, 1]), ("test", [-1, -1])):
        texts = {"sentence1": ["a b", "c"], "sentence2": ["d", "e f"]}
        rows = datasets.Dataset.from_dict({**texts, "label": label, "idx": [7, 9]})
        if split != "test":
            rows = rows.cast_column("label", labels)
        path = root / GLUE / "mrpc" / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows.to_parquet(path)
    for split in ("train", "validation_matched", "validation_mismatched", "test_matched"):
        pairs_of_mnli(root / GLUE / "mnli" / f"{split}-00000-of-00001.parquet", label=0)
    pairs_of_mnli(root / GLUE / "mnli" / "test_mismatched-00000-of-00001.parquet", label=-1)
    pairs_of_mnli(root / GLUE / "ax" / "test-00000-of-00001.parquet", label=-1)
    words_and_spans(root)
    moods = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, 0]})
    moods = moods.cast_column("label", datasets.ClassLabel(names=["sad", "happy"]))
    for split in ("train", "test"):
        path = root / MOODS / "data" / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        moods.to_parquet(path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Hub, root=root))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def words_and_spans(root: Path) -> None:
    """Write SQuAD as in its repository, and a treebank as the hub converts it."""
    question = {"context": ["Anna lives in Oslo."], "question": ["Where does Anna live?"]}
    question |= {"answers": [{"text": ["Oslo"], "answer_start": [14]}]}
    sentence = {"tokens": [["She", "walks"]], "upos": [[11, 16]], "xpos": [["PRP", "VBZ"]]}
    sentence |= {"head": [["2", "0"]]}
    for split in ("train", "validation"):
        path = root / SQUAD / "plain_text" / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_dict({"id": [split], "title": ["Oslo"], **question}).to_parquet(path)
        path = root / TREEBANKS / "en_ewt" / split / "0000.parquet"
        path.parent.mkdir(parents=True)
        datasets.Dataset.from_dict({"idx": [split], **sentence}).to_parquet(path)


def pairs_of_mnli(path: Path, label: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {"premise": [path.parent.name], "hypothesis": ["b"], "label": [label], "idx": [0]}
    datasets.Dataset.from_dict(row).to_parquet(path)


def run(code: str, endpoint: str, tmp_path: Path) -> subprocess.CompletedProcess:
    """Run code in its own process, as the hub's address is read once, at import."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
        "HF_HOME": str(tmp_path / "cache"),
        "HF_ENDPOINT": endpoint,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1",
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )


LOAD = """
import json
from subtune.data.load import load
from subtune.core.errors import SubtuneError
from subtune.selections.specs import DataSpec
from subtune.tasks import TASKS
answers = []
for name, revision in {asked}:
    task = TASKS[name]
    splits = (*task.labelled, *(task.test if task.submission else ()))
    try:
        rows = load(DataSpec(task=task, source="hub", version=revision, splits=splits))
        answers.append({{split: rows[split].to_dict() for split in rows}})
    except SubtuneError as error:
        answers.append(str(error))
print(json.dumps(answers))
"""


def load(endpoint: str, tmp_path: Path, *asked: tuple[str, str]) -> list:
    """Return the rows, or the error, of each pair of a task and a revision."""
    done = run(LOAD.format(asked=asked), endpoint, tmp_path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def downloaded(hub, tmp_path_factory) -> dict:
    """Rows of some tasks by their names."""
    tasks = ("mrpc", "mnli", "squad", "ud_ewt")
    rows = load(hub, tmp_path_factory.mktemp("home"), *((task, COMMIT) for task in tasks))
    return dict(zip(tasks, rows, strict=True))


def test_glue_is_downloaded_at_a_revision(downloaded):
    assert downloaded["mrpc"]["train"] == {
        "idx": [7, 9],
        "text_a": ["a b", "c"],
        "text_b": ["d", "e f"],
        "label": [1, 0],
    }
    assert downloaded["mrpc"]["test"]["label"] == [-1, -1]


def test_the_diagnostic_set_comes_with_mnli(downloaded):
    rows = downloaded["mnli"]
    assert rows["diagnostic"] == {"idx": [0], "text_a": ["ax"], "text_b": ["b"], "label": [-1]}
    assert rows["test_mismatched"]["text_a"] == ["mnli"]


def test_questions_words_and_tags_are_downloaded(downloaded):
    assert set(downloaded["squad"]) == {"train", "validation"}
    rows = downloaded["squad"]["train"]
    assert rows["question"] == ["Where does Anna live?"]
    assert (rows["answers"], rows["label"]) == ([["Oslo"]], [[14]])
    assert downloaded["ud_ewt"]["validation"]["words"] == [["She", "walks"]]


def test_a_download_that_fails_says_why(hub, tmp_path):
    no_task, no_revision = load(hub, tmp_path, ("ptb", COMMIT), ("mrpc", "f" * 40))
    assert no_task.startswith("source: POS (PTB) is not on the hub; name a directory")
    assert f"source: could not download nyu-mll/glue at {'f' * 40}" in no_revision
    [no_network] = load("http://127.0.0.1:9", tmp_path, ("mrpc", COMMIT))
    assert "source: could not download" in no_network and "check the network" in no_network


def test_a_model_is_downloaded_without_weights_of_other_formats(hub, tmp_path):
    code = f"""
from pathlib import Path
from subtune.models.encoder import fetch
from subtune.selections.specs import ModelSpec
target = Path({str(tmp_path / "model")!r})
fetch(ModelSpec(source="hub", repository="{MODEL}", version="main"), "{MODEL}", target)
print(sorted(path.name for path in target.iterdir()))
"""
    done = run(code, hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "['config.json', 'model.safetensors', 'tokenizer.json']" in done.stdout


PLAN = """
import json
from subtune import config
from subtune.core.errors import SubtuneError
from subtune.planning.plan import plan
settings = {{"models": ["tiny"], "tasks": ["rte"], "methods": {{"full": [1e-3]}}}}
settings |= {{"epochs": 1, "batch_size": 8}}
data = {{"results": {results!r}, "revision": {glue!r}, "experiments": {{"mine": settings}}}}
data["models"] = {{"tiny": {{"hub": {model!r}}}}}
try:
    planned = plan(config.check(data))
    [model] = planned.models.values()
    [glue] = {{rows.version for rows in planned.datasets.values()}}
    print(json.dumps([sorted(planned.runs), model.version, glue]))
except SubtuneError as error:
    print("error:", error)
"""


@pytest.fixture
def planned(hub, tmp_path):
    """A function that plans a run of a model and of GLUE at branches, in the same results."""

    def planned(endpoint: str = hub, glue: str = "main"):
        results = str(tmp_path / "results")
        code = PLAN.format(results=results, glue=glue, model=MODEL)
        done = run(code, endpoint, tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return planned


def test_a_branch_is_the_commit_of_the_first_plan_until_its_line_is_deleted(
    planned, move_main, tmp_path
):
    first = planned()
    _, model, glue = json.loads(first)
    assert (model, glue) == (COMMIT, COMMIT)
    move_main(NEXT_COMMIT)
    assert planned(endpoint="http://127.0.0.1:9") == first
    kept = tmp_path / "results" / "pinned.json"
    commits = json.loads(kept.read_text())
    assert commits.pop(f"{MODEL}@main") == COMMIT
    kept.write_text(json.dumps(commits))
    runs, model, glue = json.loads(planned())
    assert (model, glue) == (NEXT_COMMIT, COMMIT)
    assert not set(runs) & set(json.loads(first)[0])


def test_a_models_files_on_the_hub_say_its_pooling_once(planned, root, tmp_path):
    runs, *_ = json.loads(planned())
    (root / MODEL / "1_Pooling").mkdir()
    (root / MODEL / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    modules = [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
    (root / MODEL / "modules.json").write_text(json.dumps(modules))
    try:
        kept = tmp_path / "results" / "pinned.json"
        assert json.loads(planned())[0] == runs
        kept.unlink()
        assert not set(json.loads(planned())[0]) & set(runs)
        assert json.loads(kept.read_text())[f"pooling of {MODEL}@{COMMIT}"] == "mean"
    finally:
        shutil.rmtree(root / MODEL / "1_Pooling")
        (root / MODEL / "modules.json").unlink()


def test_a_branch_that_cannot_be_planned_is_one_line(planned):
    printed = planned(endpoint="http://127.0.0.1:9")
    assert printed.startswith(
        f"error: models.tiny.revision: could not ask the hub for the commit of {MODEL} at main ("
    )
    assert "name a commit (40 hexadecimal digits), or call once with" in printed
    assert len(printed.splitlines()) == 1
    assert "error: revision: could not ask the hub for the commit of nyu-mll/glue at v9" in (
        planned(glue="v9")
    )


def test_after_the_downloads_nothing_needs_a_network(hub, tmp_path, tiny_bert, no_network):
    project = Project(tmp_path / "project", tiny_bert)
    project.config |= {"source": "hub", "revision": COMMIT, "hub_cache": "downloads"}
    project.config["models"] = {"tiny": {"hub": MODEL}}
    experiment = project.config["experiments"]["layernorm"]
    experiment |= {"tasks": ["mrpc"], "fractions": None}
    project.environment = {"HF_ENDPOINT": hub, "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}
    project.run(project.config, "--until", "dataset", "model")
    assert json.loads((project.directory / "results" / "pinned.json").read_text()) == {
        f"{MODEL}@main": COMMIT,
        f"pooling of {MODEL}@{COMMIT}": "first",
    }
    assert list((project.directory / "downloads").glob("models--*"))
    done = subprocess.run(
        [*no_network, *SNAKEMAKE, "-c2", "--configfile", "mine.yaml", "--", "results/runs.csv"],
        cwd=project.directory,
        env={**os.environ, **project.environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    specs = list((project.directory / "results" / "runs").glob("*/spec.json"))
    assert {json.loads(spec.read_text())["model"]["version"] for spec in specs} == {COMMIT}


SPLITS = """
import json
from pathlib import Path
from subtune.core.errors import SubtuneError
from subtune.interface.tables import splits_of
results = Path({results!r})
said = []
for dev in ("test", "valid"):
    try:
        splits = splits_of("acme/moods", dev)
        said.append({{n: split.frame(results).to_dict("list") for n, split in splits.items()}})
    except SubtuneError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def test_any_dataset_of_the_hub_is_read_with_its_class_names_at_a_pinned_commit(hub, tmp_path):
    done = run(SPLITS.format(results=str(tmp_path)), hub, tmp_path)
    assert done.returncode == 0, done.stderr
    rows, without = json.loads(done.stdout)
    expected = {"text": ["a", "b"], "label": ["happy", "sad"]}
    assert rows == {"train": expected, "validation": expected}
    assert COMMIT in (tmp_path / "pinned.json").read_text()
    assert without.startswith("dev: found no 'valid' in acme/moods")
    assert 'dev="test"' in without
