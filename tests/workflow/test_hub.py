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
MODEL = "acme/tiny-bert"
MAIN = "main.txt"


class Hub(http.server.BaseHTTPRequestHandler):
    """The part of the hub's API that a download uses: repository info, and files by revision.

    `MAIN` in the root holds the commit that the branch `main` stands for; all commits have the
    same files.
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
        """Answer what a repository is at a revision, and which files it holds there."""
        repository, _, rest = path.partition("/revision/" if "/revision/" in path else "/tree/")
        folder = self.root / repository
        commit = self.commit(rest)
        if not commit or not folder.is_dir():
            return self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"}, body)
        files = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
        answer = [
            {"type": "file", "path": name, "size": file.stat().st_size, "oid": "0" * 40}
            for name, file in files.items()
        ]
        if "/revision/" in path:
            answer = {"id": repository, "sha": commit, "private": False, "tags": []}
            answer["siblings"] = [{"rfilename": name} for name in files]
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
    """The directory that holds what the hub has."""
    return tmp_path_factory.mktemp("hub")


@pytest.fixture
def move_main(root):
    """Let the branch `main` stand for another commit, until the test is over."""
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
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Hub, root=root))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def words_and_spans(root: Path) -> None:
    """SQuAD as its repository has it, and a treebank as the hub converts one."""
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
    """Run code in a process of its own: the hub's address is read once, at import."""
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
try:
    task = TASKS["{task}"]
    splits = (*task.labelled, *(task.test if task.submission else ()))
    rows = load(DataSpec(task=task, source="hub", version="{revision}", splits=splits))
    print(json.dumps({{split: rows[split].to_dict() for split in rows}}))
except SubtuneError as error:
    print("error:", error)
"""


def test_glue_is_downloaded_at_a_revision_and_gets_the_one_shape(hub, tmp_path):
    done = run(LOAD.format(task="mrpc", revision=COMMIT), hub, tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert rows["train"] == {
        "idx": [7, 9],
        "text_a": ["a b", "c"],
        "text_b": ["d", "e f"],
        "label": [1, 0],
    }
    assert rows["test"]["label"] == [-1, -1]


def test_the_diagnostic_set_comes_with_mnli(hub, tmp_path):
    done = run(LOAD.format(task="mnli", revision=COMMIT), hub, tmp_path)
    rows = json.loads(done.stdout)
    assert rows["diagnostic"] == {"idx": [0], "text_a": ["ax"], "text_b": ["b"], "label": [-1]}
    assert rows["test_mismatched"]["text_a"] == ["mnli"]


def test_questions_and_answers_are_downloaded(hub, tmp_path):
    done = run(LOAD.format(task="squad", revision=COMMIT), hub, tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert set(rows) == {"train", "validation"}
    assert rows["train"]["question"] == ["Where does Anna live?"]
    assert (rows["train"]["answers"], rows["train"]["label"]) == ([["Oslo"]], [[14]])


def test_words_and_their_tags_are_downloaded(hub, tmp_path):
    done = run(LOAD.format(task="ud_ewt", revision=COMMIT), hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["validation"]["words"] == [["She", "walks"]]


def test_a_treebank_that_the_hub_does_not_have_is_one_line(hub, tmp_path):
    done = run(LOAD.format(task="ptb", revision=COMMIT), hub, tmp_path)
    assert done.stdout.startswith("error: source: POS (PTB) is not on the hub; name a directory")


def test_a_revision_that_the_hub_does_not_have_is_named(hub, tmp_path):
    done = run(LOAD.format(task="mrpc", revision="f" * 40), hub, tmp_path)
    assert f"error: source: could not download nyu-mll/glue at {'f' * 40}" in done.stdout


def test_a_hub_that_cannot_be_reached_says_what_to_do(tmp_path):
    done = run(LOAD.format(task="mrpc", revision=COMMIT), "http://127.0.0.1:9", tmp_path)
    assert "error: source: could not download" in done.stdout, done.stderr
    assert "check the network" in done.stdout


def test_a_model_is_downloaded_without_weights_of_other_formats_and_loads(hub, tmp_path):
    code = f"""
from pathlib import Path
from subtune.models.fetching import fetch
from subtune.models.load import load_model
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.selections.specs import ModelSpec
target = Path({str(tmp_path / "model")!r})
fetch(ModelSpec(source="hub", repository="{MODEL}", version="main"), "{MODEL}", target)
print(sorted(path.name for path in target.iterdir()))
print(load_model(target, SEQUENCE_CLASSIFICATION, 2).parameters["classifier.weight"].shape)
"""
    done = run(code, hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "['config.json', 'model.safetensors', 'tokenizer.json']" in done.stdout
    assert "[2, 32]" in done.stdout


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
    """Plan a run of a model and of GLUE at branches, in the same results every time."""

    def planned(endpoint: str = hub, glue: str = "main"):
        results = str(tmp_path / "results")
        code = PLAN.format(results=results, glue=glue, model=MODEL)
        done = run(code, endpoint, tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return planned


def test_a_branch_is_the_commit_that_it_stood_for_when_it_was_planned_first(planned):
    _, model, glue = json.loads(planned())
    assert (model, glue) == (COMMIT, COMMIT)


def test_a_branch_that_moves_changes_no_run_until_its_line_is_deleted(planned, move_main, tmp_path):
    first = planned()
    move_main(NEXT_COMMIT)
    assert planned() == first
    kept = tmp_path / "results" / "pinned.json"
    commits = json.loads(kept.read_text())
    assert commits.pop(f"{MODEL}@main") == COMMIT
    kept.write_text(json.dumps(commits))
    runs, model, glue = json.loads(planned())
    assert (model, glue) == (NEXT_COMMIT, COMMIT)
    assert not set(runs) & set(json.loads(first)[0])


def test_a_branch_that_is_known_is_planned_without_a_network(planned):
    assert planned() == planned(endpoint="http://127.0.0.1:9")


def test_a_branch_that_nobody_knows_is_one_line_that_says_what_helps(planned):
    printed = planned(endpoint="http://127.0.0.1:9")
    assert printed.startswith(
        f"error: models.tiny.revision: could not ask the hub for the commit of {MODEL} at main ("
    )
    assert "name a commit (40 hexadecimal digits), or plan once where there is" in printed
    assert len(printed.splitlines()) == 1


def test_a_revision_that_the_hub_does_not_know_is_named_when_it_is_planned(planned):
    assert "error: revision: could not ask the hub for the commit of nyu-mll/glue at v9" in (
        planned(glue="v9")
    )


def test_after_the_downloads_nothing_needs_a_network(hub, tmp_path, tiny_bert, no_network):
    project = Project(tmp_path / "project", tiny_bert)
    project.config |= {"source": "hub", "revision": COMMIT, "hub_cache": "downloads"}
    project.config["models"] = {"tiny": {"hub": MODEL}}
    experiment = project.config["experiments"]["layernorm"]
    experiment |= {"tasks": ["mrpc"], "fractions": None}
    environment = {"HF_ENDPOINT": hub, "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}
    project.run(project.config, "--until", "dataset", "model", environment=environment)
    assert json.loads((project.directory / "results" / "pinned.json").read_text()) == {
        f"{MODEL}@main": COMMIT
    }
    assert list((project.directory / "downloads").glob("models--*"))
    table = "results/experiments/layernorm/table2.md"
    done = subprocess.run(
        [*no_network, *SNAKEMAKE, "-c2", "--configfile", "mine.yaml", "--", table],
        cwd=project.directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MRPC" in (project.directory / table).read_text()
    specs = list((project.directory / "results" / "runs").glob("*/spec.json"))
    assert {json.loads(spec.read_text())["model"]["version"] for spec in specs} == {COMMIT}
