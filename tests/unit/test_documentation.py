"""Pages of the site, and the project's files. `make docs` refuses a dead link."""

import ast
import json
import re
import subprocess
import sys

import pandas as pd
import pytest
from docs._ext import api_pages, offline, settings

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
    text = settings.tables(schema)
    for part in [schema, *schema["$defs"].values()]:
        for name, setting in part["properties"].items():
            [*rows] = re.findall(rf"^\| `{name}` \| .*$", text, re.M)
            assert any(setting.get("description", "") in row for row in rows), name
    assert "| `epochs` | whole number ≥ 1 | an error | passes over the training set |" in text
    assert "| `source` | `hub`, `tsv`, `builtin` | `hub` |" in text
    assert "| `fractions` | [Fractions](#fractions) |  |" in text


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


EXAMPLE = ROOT / "results" / "example"


def rows_of_the_page_of_methods() -> list[str]:
    page = re.sub(r" +", " ", (ROOT / "docs" / "leaderboard.md").read_text())
    return [line.replace("**", "") for line in page.splitlines() if line.startswith("|")]


def test_the_page_of_methods_has_the_recorded_scores_and_chances():
    rows = rows_of_the_page_of_methods()
    for row in pd.read_csv(EXAMPLE / "leaderboard" / "summary.csv").itertuples():
        cell = f"{row.score:.3f} ± {row.spread:.3f}"
        if row.method != "full":
            percent = f"{100 * row.chance:.0f}".replace("100", ">99")
            cell += f", {'<1' if percent == '0' else percent} %"
        mark = {"still rising": " ↗", "fell": " ↘"}.get(row.curve, "")
        expected = f"| {row.trained:,} |", f"| {cell}{mark} |"
        assert any(all(part in line for part in expected) for line in rows), expected


def test_the_page_of_methods_has_the_found_rates_and_both_budgets():
    rows = rows_of_the_page_of_methods()
    columns = ["method", "task", "seed", "dev score", "learning rate", "plateau"]
    whole, short = (
        pd.read_csv(EXAMPLE / name / "choices.csv", usecols=columns).dropna(subset="learning rate")
        for name in ("leaderboard", "three_epochs")
    )
    for row in whole.drop_duplicates(["method", "task"]).itertuples():
        assert any(f"| {row.plateau} |" in line for line in rows), row
    first_seeds = [
        table[table["seed"] < 2].groupby(["method", "task"])["dev score"].mean()
        for table in (short, whole)
    ]
    for before, after in zip(*first_seeds, strict=True):
        assert any(f"| {before:.3f} → {after:.3f} |" in line for line in rows)
