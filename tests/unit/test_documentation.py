"""Pages of the site, and the project's files. `make docs` refuses a dead link."""

import ast
import json
import re
import subprocess
import sys

import pytest
import yaml
from docs._ext import api_pages, offline, settings

from tests.helpers import faults
from tests.helpers.project import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]


def test_the_reference_has_every_module_once():
    pages = [api_pages.page_of(name, folder) for name, folder in api_pages.packages().items()]
    listed = re.findall(r"^\.\. automodule:: (.*)$", "\n".join(pages), re.M)
    source = ROOT / "src"
    modules = {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        for path in source.rglob("*.py")
        # A file without an __init__ beside it is read by its path and is not a module.
        if (path.parent / "__init__.py").exists() and ast.get_docstring(ast.parse(path.read_text()))
    }
    assert modules <= set(listed) and len(listed) == len(set(listed))


def test_the_page_of_settings_has_every_one_with_its_meaning_and_default():
    schema = json.loads((ROOT / "config.schema.json").read_text())
    text = settings.tables()
    for part in [schema, *schema["$defs"].values()]:
        for name, setting in part["properties"].items():
            [*rows] = re.findall(rf"^\| `{name}` \| .*$", text, re.M)
            assert any(setting.get("description", "") in row for row in rows), name


def test_the_workflow_catalog_finds_the_configuration_and_its_schema():
    schema = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
    assert schema == json.loads((ROOT / "config.schema.json").read_text())
    assert (ROOT / "config/config.yaml").read_text() == (ROOT / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<script src="https://cdn.example/x.js"></script>', ["https://cdn.example/x.js"]),
        ('<link rel="stylesheet" href="//fonts.example/a.css">', ["//fonts.example/a.css"]),
        ('<img alt="" src="http://example/a.png">', ["http://example/a.png"]),
        (
            "@font-face {src: url('https://fonts.example/a.woff2')}",
            ["https://fonts.example/a.woff2"],
        ),
        ('@import "https://fonts.example/a.css";', ["https://fonts.example/a.css"]),
        ('<script src="_static/x.js"></script><img src="a.png"><a href="https://b">b</a>', []),
        ('<link rel="stylesheet" href="a.css"><link rel="canonical" href="https://b">', []),
    ],
)
def test_what_a_page_fetches_from_elsewhere_is_found(text, found):
    assert offline.fetched_from_elsewhere(text) == found


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS),
        ("github-issue-forms", FORMS),
        ("github-issue-config", [ROOT / ".github/ISSUE_TEMPLATE/config.yml"]),
        ("citation-file-format", [ROOT / "CITATION.cff"]),
    ],
)
def test_a_file_that_others_read_fits_their_schema(schema, files):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *files], capture_output=True, text=True)
    assert files and done.returncode == 0, done.stdout + done.stderr


def test_no_fault_is_listed_twice():
    found = [(fault.section, fault.cause) for fault in faults.list_faults()]
    assert len(found) >= 60 and len(found) == len(set(found))
    assert {section for section, _ in found} == {*faults.TITLES}
