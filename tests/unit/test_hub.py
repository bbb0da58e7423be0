"""The hub: commits that are known without asking it, and pushes to a local server like it."""

import json

import huggingface_hub
import pytest

from subtune import cli
from subtune.config.schema import HUB_MODELS
from subtune.core.errors import SubtuneError
from subtune.hub import COMMIT, GLUE, SQUAD, UNIVERSAL_DEPENDENCIES, pinned, upload
from subtune.selections.methods import METHODS
from tests.helpers.hub import READER, WRITER, Uploads, serving
from tests.helpers.records import recorded

COMMIT_OF_MAIN = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def kept(tmp_path):
    return tmp_path / "pinned.json"


@pytest.mark.parametrize("repository", [GLUE, SQUAD, UNIVERSAL_DEPENDENCIES, *HUB_MODELS.values()])
def test_what_the_papers_use_is_at_one_commit_where_no_revision_is_named(repository, kept):
    assert COMMIT.fullmatch(pinned(repository, None, "model", kept, "revision"))


def test_commits_and_earlier_answers_need_no_hub(kept):
    assert pinned("a/b", COMMIT_OF_MAIN, "model", kept, "revision") == COMMIT_OF_MAIN
    kept.write_text(json.dumps({"a/b@main": COMMIT_OF_MAIN}))
    assert pinned("a/b", None, "model", kept, "revision") == COMMIT_OF_MAIN


@pytest.mark.parametrize("text", ["{", "[]", '{"a/b@main": "main"}', '{"a/b@main": 7}'])
def test_a_file_of_commits_that_is_damaged_is_named_in_one_line(kept, text):
    kept.write_text(text)
    with pytest.raises(
        SubtuneError, match=r"pinned\.json: found something else, expected a commit"
    ):
        pinned("a/b", "main", "model", kept, "revision")


@pytest.fixture(scope="module")
def shared(tmp_path_factory, tiny_bert):
    """Results with a run of LoRA."""
    results = tmp_path_factory.mktemp("shared")
    return results, recorded(results, tiny_bert, METHODS["lora-I"])[0].id


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The repositories of a hub that this process reaches with a token that may write."""
    repositories: dict[str, dict] = {}
    with serving(Uploads, repositories=repositories) as address:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setattr(
            huggingface_hub.constants, "HF_STORED_TOKENS_PATH", str(tmp_path / "tokens")
        )
        monkeypatch.setenv("HF_TOKEN", WRITER)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield repositories


def push(shared, *options: str, name: str = "acme/tiny") -> int:
    results, run = shared
    return cli.main(["export", run, "--results", str(results), "--push", name, *options])


def error_of(capsys) -> str:
    [line] = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.slow
def test_a_push_replaces_everything_of_an_earlier_push(shared, hub, capsys, tmp_path):
    assert push(shared) == 0
    files = hub["acme/tiny"]["files"]
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= set(files)
    assert "place = 'acme/tiny'" in files["README.md"].decode()
    assert not hub["acme/tiny"]["private"]
    printed = capsys.readouterr().out
    assert printed.startswith(f"run {shared[1]} is at http://127.0.0.1:")
    assert printed.endswith("/acme/tiny\n")
    files["notes.md"] = b"of the user"
    assert push(shared, "--adapter", "--to", str(tmp_path / "out")) == 0
    assert {"README.md", "adapter_config.json", "adapter_model.safetensors", "notes.md"} <= {*files}
    assert not {"config.json", "model.safetensors"} & set(files)
    for path in (tmp_path / "out").iterdir():
        assert files[path.name] == path.read_bytes()


def test_a_push_may_be_private(shared, hub, capsys):
    assert push(shared, "--private") == 0
    assert capsys.readouterr().out.endswith("/acme/tiny\n")
    assert hub["acme/tiny"]["private"]


@pytest.mark.slow
def test_nothing_private_goes_to_a_public_repository(shared, hub, capsys):
    hub["acme/tiny"] = {"private": False, "files": {}}
    assert push(shared, "--private") == 1
    assert capsys.readouterr().err == (
        "--private: acme/tiny is public; name a new repository, or make it private\n"
    )
    assert hub["acme/tiny"]["files"] == {}


@pytest.mark.parametrize(
    ("changes", "name", "reason"),
    [
        ({}, "tiny", "tiny"),
        ({}, "acme/a--b", "acme/a--b"),
        ({"HF_TOKEN": ""}, "acme/tiny", "no token found"),
        ({"HF_TOKEN": "hf_stolen"}, "acme/tiny", "Invalid user token."),
    ],
)
def test_a_push_that_cannot_work_is_refused_first(
    shared, hub, capsys, monkeypatch, changes, name, reason
):
    for variable, value in changes.items():
        monkeypatch.setenv(variable, value)
    assert push(shared, name=name) == 1
    error = error_of(capsys)
    assert error.startswith("--push: expected OWNER/NAME, a network") and reason in error


@pytest.mark.parametrize(("token", "name"), [(READER, "acme/tiny"), (WRITER, "others/tiny")])
def test_who_may_not_write_there_is_told(hub, monkeypatch, tmp_path, token, name):
    monkeypatch.setenv("HF_TOKEN", token)
    (tmp_path / "README.md").write_text("")
    with pytest.raises(SubtuneError, match="don't have the rights to create a model") as caught:
        upload(tmp_path, name, private=False)
    assert "a token that may write (`hf auth login`)" in str(caught.value)
    assert not hub


def test_without_a_network_one_line_says_so(shared, hub, capsys, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    assert push(shared) == 1
    assert "Connection refused" in error_of(capsys)


@pytest.mark.parametrize("options", [[], ["--to", "out", "--private"]])
def test_options_that_do_not_fit_are_refused_before_any_work(options, capsys):
    assert cli.main(["export", "0", "--results", "no-results", *options]) == 1
    assert error_of(capsys) == "expected --to DIR or --push OWNER/NAME; --private needs --push"
