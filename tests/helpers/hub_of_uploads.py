"""A local server that takes uploads as the hub does: users, repositories, and commits to them."""

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from huggingface_hub import ModelCard

WRITER, READER = "hf_writer", "hf_reader"


class Uploads(http.server.BaseHTTPRequestHandler):
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
            return self.send(404, {}, "RepoNotFound")
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
                return self.send(403, {"error": "You don't have the rights to create a model"})
            url = f"http://{self.headers['Host']}/{name}"
            if name in self.repositories:
                return self.send(409, {"error": "You already created this model repo", "url": url})
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
        self.send(401, {"error": "Invalid username or password."})
        return False

    def send(self, status: int, answer: object, code: str = ""):
        content = json.dumps(answer).encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        if isinstance(answer, dict) and "error" in answer:
            self.send_header("X-Error-Message", answer["error"])
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@contextmanager
def serving() -> Iterator[tuple[str, dict[str, dict]]]:
    """Serve, and yield the address and the repositories."""
    repositories: dict[str, dict] = {}
    handler = type("Handler", (Uploads,), {"repositories": repositories})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", repositories
    finally:
        server.shutdown()
        server.server_close()
