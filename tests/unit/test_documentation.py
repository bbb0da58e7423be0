"""Pages, links and the project's files."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from docs._ext import api_pages, offline, repository_links, settings

from tests.helpers.project import ROOT

PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/**/*.md")],
    key=lambda path: path.relative_to(ROOT).parts,
)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]


def without_code(text: str) -> str:
    """A page without its blocks and words of code, where brackets are no links."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.M)
    return re.sub(r"(`+).*?\1", "code", text)


def links_of(path: Path) -> list[str]:
    found = re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text()))
    return [link for link in found if not re.match(r"\w+:", link)]


def anchors_of(path: Path) -> set[str]:
    """Return the anchors of a page: its headings, in small letters, with hyphens for spaces."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_of_a_page_leads_to_a_file_and_a_heading_that_are_there(page):
    for link in links_of(page):
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists() and target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors_of(target), link


def test_links_between_files_are_links_between_pages_on_the_site():
    text = "[a](docs/tasks.md#mistakes) [b](CONTRIBUTING.md) [c](examples/own.yaml) [d](https://e)"
    assert repository_links.on_the_site(text, ".") == (
        "[a](tasks.md#mistakes) [b](contributing.md) [c](../examples/own.yaml) [d](https://e)"
    )
    text = "[a](models.md) [b](../README.md#methods) [c](../examples/own.yaml) [d](#e)"
    assert repository_links.on_the_site(text, "docs") == (
        "[a](models.md) [b](index.md#methods) [c](../examples/own.yaml) [d](#e)"
    )


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


def test_a_section_of_the_settings_is_there_once_and_linked():
    schema = json.loads((ROOT / "config.schema.json").read_text())
    text = settings.tables(schema)
    headings = re.findall(r"^## (.*)$", text, re.M)
    assert sorted(headings) == sorted(["At the top", *schema["$defs"]])
    assert {name.lower() for name in schema["$defs"]} == set(re.findall(r"\]\(#(\w+)\)", text))


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
