"""Papers are declared whole, and nothing else names one."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from subtune import papers
from subtune.analysis.claims import Claim
from subtune.exhibits.tables.choices import metrics
from subtune.exhibits.tables.comparison import comparison
from subtune.papers import printed
from subtune.papers.paper import Table, problems
from subtune.papers.shared import all_exhibits
from subtune.selections.methods import METHODS
from tests.helpers.project import ROOT

PAPERS = [papers.find(name) for name in papers.names()]
EXHIBITS = [
    pytest.param(paper, exhibit, id=f"{paper.name or 'none'}-{exhibit.name}")
    for paper in [*PAPERS, papers.NO_PAPER]
    for exhibit in all_exhibits(paper)
]
SPAFIT = papers.find("spafit")
TABLE = Table("table9", "Title", "Caption.", make=metrics)
CLAIM = Claim("It holds", "1", "difference", "same", of=("full", "bitfit"))


def test_every_folder_of_the_package_is_a_paper():
    folders = {path.parent.name for path in Path(papers.__file__).parent.glob("*/__init__.py")}
    assert {paper.name for paper in PAPERS} == folders >= {"layernorm", "bitfit"}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_a_paper_has_no_mistakes_in_its_declarations(paper):
    assert list(problems(paper, paper.name, all_exhibits(paper))) == []


@pytest.mark.parametrize(
    ("exhibits", "claims", "message"),
    [
        ([TABLE, TABLE], [], "table9: found twice"),
        ([replace(TABLE, reads={"tasks": "chosn"})], [], "reads: found 'chosn'"),
        ([replace(TABLE, options={"width": 3})], [], "make: metrics: got an unexpected keyword"),
        ([replace(TABLE, make=comparison)], [], "make: comparison: missing a required argument"),
        ([TABLE], [replace(CLAIM, reads=("chosn",))], "reads: found 'chosn'.*mean 'chosen'"),
        ([TABLE], [replace(CLAIM, expects="mor")], "expects: found 'mor'.*mean 'more'"),
        ([TABLE], [replace(CLAIM, of=("full",))], "of: minus: missing a required argument"),
    ],
)
def test_a_mistake_in_a_paper_is_one_line(exhibits, claims, message):
    [line] = problems(replace(SPAFIT, claims=claims), "spafit", exhibits)
    assert re.search(message, line), line


@pytest.mark.parametrize(("paper", "exhibit"), EXHIBITS)
def test_an_exhibit_has_a_title_and_a_caption_and_its_printed_numbers(paper, exhibit):
    assert exhibit.title and exhibit.caption.endswith(".") and "  " not in exhibit.caption
    if paper.name:
        assert all(len(printed.table(paper.name, name)) for name in exhibit.printed.values())


def literals(path: Path) -> Iterator[str]:
    """Text in a Python file that is no docstring, and words of the others."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from re.findall(r'"(\w+)"', text)
        return
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    strings = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is str]
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    yield from (node.value for node in strings if node not in docstrings)


def test_no_other_file_of_the_library_or_the_workflow_names_a_paper():
    """Three papers' methods have the paper's name; those are named where methods are."""
    names = set(papers.names())
    files = [*(ROOT / "workflow").rglob("*.*"), *(ROOT / "src").rglob("*.py"), ROOT / "Snakefile"]
    naming = {
        str(path.relative_to(ROOT))
        for path in files
        if "papers" not in path.relative_to(ROOT).parts
        and path.is_file()
        and names & set(literals(path))
    }
    assert naming == {"src/subtune/selections/methods.py"}
    assert names - set(METHODS) == {"bitfit_plus", "spafit"}
    assert not names - set(METHODS) & set(literals(ROOT / "src/subtune/selections/methods.py"))


def test_a_printed_number_is_part_of_what_decides_a_table():
    versions = {printed.version(name) for name in ["", *papers.names()]}
    assert len(versions) == len(papers.names()) + 1
