"""Local servers that answer as the hub does: one has files to download, the other takes uploads."""

import base64
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from huggingface_hub import ModelCard

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NEXT_COMMIT = "89abcdef0123456789abcdef0123456789abcdef"
# A file with the commit of the branch `main`.
MAIN = "main.txt"
WRITER, READER = "hf_writer", "hf_reader"


class Hub(http.server.BaseHTTPRequestHandler):
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


class Downloads(Hub):
    """The part of the hub's API that a download uses: repository info, and files by revision.

    ``root`` has the files of each repository, which are the same at `COMMIT` and `NEXT_COMMIT`.
    """

    root: Path

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
        return revision if revision in (COMMIT, NEXT_COMMIT) else None


class Uploads(Hub):
    """The part of the hub's API that an upload of small files uses.

    ``repositories`` has each one's privacy and files. `WRITER` may write to ``acme``, `READER` may
    write nowhere, and the hub knows no other token.
    """

    repositories: dict[str, dict]

    def do_GET(self):
        path = unquote(self.path.split("?")[0])
        if not self.known():
            return
        if path == "/api/whoami-v2":
            return self.send(200, {"name": "acme", "type": "user"})
        name, _, rest = path.removeprefix("/api/models/").partition("/tree/")
        found = self.repositories.get(name)
        if found is None:
            return self.send(404, {}, X_Error_Code="RepoNotFound")
        if rest:
            files = found["files"].items()
            about = ((path, {"size": len(content), "oid": "0" * 40}) for path, content in files)
            return self.send(200, [{"type": "file", "path": path} | more for path, more in about])
        return self.send(200, {"id": name, "private": found["private"], "tags": [], "siblings": []})

    def do_POST(self):
        path = unquote(self.path.split("?")[0])
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.known():
            return
        if path == "/api/validate-yaml":
            ModelCard(json.loads(sent)["content"])
            return self.send(200, {"errors": [], "warnings": []})
        if path == "/api/repos/create":
            asked = json.loads(sent)
            name = f"{asked['organization']}/{asked['name']}"
            if self.token() != WRITER or asked["organization"] != "acme":
                return self.refuse(403, "You don't have the rights to create a model")
            url = f"http://{self.headers['Host']}/{name}"
            if name in self.repositories:
                return self.refuse(409, "You already created this model repo", url=url)
            private = asked.get("visibility") == "private"
            self.repositories[name] = {"private": private, "files": {}}
            return self.send(200, {"url": url})
        name, _, action = path.removeprefix("/api/models/").rpartition("/")[0].rpartition("/")
        if action == "preupload":
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(sent)["files"]
            ]
            return self.send(200, {"files": files})
        for line in map(json.loads, sent.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                content = base64.b64decode(value["content"])
                self.repositories[name]["files"][value["path"]] = content
            elif line["key"] == "deletedFile":
                del self.repositories[name]["files"][value["path"]]
        url = f"http://{self.headers['Host']}/{name}/commit/{'0' * 40}"
        return self.send(200, {"commitUrl": url, "commitOid": "0" * 40})

    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def known(self) -> bool:
        if self.token() in (WRITER, READER):
            return True
        self.refuse(401, "Invalid username or password.")
        return False

    def refuse(self, status: int, error: str, **more: str):
        self.send(status, {"error": error} | more, X_Error_Message=error)


@contextmanager
def serving(kind: type[Hub], **state: Any) -> Iterator[str]:
    """Serve, and yield the address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (kind,), state))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
