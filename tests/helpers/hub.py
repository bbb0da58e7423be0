"""A local server that answers downloads like the Hugging Face hub."""

import hashlib
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import datasets

from subtune.core.hub import COMMITS, GLUE
from subtune.tasks import TASKS

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NEXT_COMMIT = "89abcdef0123456789abcdef0123456789abcdef"
# The name of a file that contains the commit of the branch `main`.
MAIN = "main.txt"
# The model of `write_repositories`.
MODEL = "acme/tiny-bert"


def write_repositories(root: Path, model: Path) -> Path:
    """Write the files of a model, of some tasks of GLUE, and of another dataset."""
    (root / MAIN).write_text(COMMIT)
    shutil.copytree(model, root / MODEL)
    (root / MODEL / "pytorch_model.bin").write_bytes(b"never wanted")
    glue = root / "datasets" / GLUE
    texts = {"sentence1": ["a b", "c"], "sentence2": ["d", "e f"]}
    for split, labels in (("train", [1, 0]), ("validation", [1, 1]), ("test", [-1, -1])):
        names = None if split == "test" else ["not_equivalent", "equivalent"]
        _write(_shard(glue / "mrpc", split), names, **texts, label=labels, idx=[7, 9])
    splits = [*TASKS["mnli"].labelled_splits, "test_matched", "test_mismatched"]
    for path in [*(_shard(glue / "mnli", split) for split in splits), _shard(glue / "ax", "test")]:
        label = 0 if "test_m" not in path.name and path.parent.name == "mnli" else -1
        folder = path.parent.name
        _write(path, None, premise=[folder], hypothesis=["b"], label=[label], idx=[0])
    for split in ("train", "test"):
        moods = root / "datasets/acme/moods/data"
        _write(_shard(moods, split), ["sad", "happy"], text=["a", "b"], label=[1, 0])
    return root


def _shard(folder: Path, split: str) -> Path:
    return folder / f"{split}-00000-of-00001.parquet"


def _write(path: Path, label_names: list[str] | None, **columns) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = datasets.Dataset.from_dict(columns)
    if label_names:
        rows = rows.cast_column("label", datasets.ClassLabel(names=label_names))
    rows.to_parquet(path)


class Hub(http.server.BaseHTTPRequestHandler):
    """The part of the hub's API that a download uses: repository info, and files by revision.

    ``root`` contains the files of each repository. They are the same at every known commit.
    """

    root: Path

    def do_HEAD(self):
        self.do_GET()

    def send(self, status: int, answer: object = None, **headers: str):
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = self.path.split("?")[0]
        if path.startswith("/api/"):
            return self.describe(path.removeprefix("/api/").removeprefix("models/"))
        repository, _, rest = path.lstrip("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        file, commit = self.root / repository / name, self.commit(revision)
        if not file.is_file() or not commit:
            return self.send(404, X_Error_Code="EntryNotFound")
        content = file.read_bytes()
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        return self.send(200, content, ETag=etag, X_Repo_Commit=commit)

    def describe(self, path: str):
        """Describe a repository at a revision, or list its files there."""
        repository, _, rest = path.partition("/revision/" if "/revision/" in path else "/tree/")
        revision, _, below = rest.partition("/")
        folder, commit = self.root / repository, self.commit(revision)
        if not commit or not folder.is_dir():
            return self.send(404, {}, X_Error_Code="RevisionNotFound")
        paths = (folder / below).glob("*" if "recursive=false" in self.path else "**/*")
        files = {str(path.relative_to(folder)): path for path in paths}
        if not files:
            return self.send(404, {}, X_Error_Code="EntryNotFound")
        if "/revision/" in path:
            names = [{"rfilename": name} for name, path in files.items() if path.is_file()]
            about = {"id": repository, "sha": commit, "private": False, "tags": []}
            return self.send(200, about | {"siblings": names})
        answer = [
            {"type": "file" if file.is_file() else "directory", "path": name, "oid": "0" * 40}
            | {"size": file.stat().st_size}
            for name, file in files.items()
        ]
        return self.send(200, answer)

    def commit(self, revision: str) -> str | None:
        revision = (self.root / MAIN).read_text() if revision == "main" else revision
        return revision if revision in (COMMIT, NEXT_COMMIT, COMMITS[GLUE]) else None


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Serve the repositories under ``root``, and yield the address of the server."""
    handler = type("Handler", (Hub,), {"root": root})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
