"""Papers are declared whole, and nothing else names one."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest
from subtune.papers.base import FACTS, Figure
from subtune.papers.common import exhibits_around

from subtune import papers
from subtune.exhibits import facts
from subtune.papers import printed
from subtune.selections.methods import METHODS
from tests.helpers.project import ROOT

PAPERS = list(papers.all_papers().values())
EXHIBITS = [
    pytest.param(paper, exhibit, id=f"{paper.name or 'none'}-{exhibit.name}")
    for paper in [*PAPERS, papers.NO_PAPER]
    for exhibit in exhibits_around(paper)
]


def test_every_paper_has_the_name_of_its_module():
    modules = {path.stem for path in Path(papers.__file__).parent.glob("*.py")}
    assert {paper.name for paper in PAPERS} == modules - {"__init__", *papers.OTHERS}
    assert {paper.name for paper in PAPERS} == {"layernorm", "bitfit", "bitfit_plus", "spafit"}


@pytest.mark.parametrize(("paper", "exhibit"), EXHIBITS)
def test_a_declaration_gives_its_function_what_it_takes(paper, exhibit):
    parameters = inspect.signature(resolve_name(exhibit.make)).parameters
    given = [*exhibit.reads, *exhibit.reads_if_there, *exhibit.facts, *exhibit.options]
    given += ["printed"] * (exhibit.printed is not None)
    given += ["style"] * isinstance(exhibit, Figure)
    assert len(given) == len(set(given)) and set(given) <= set(parameters)
    needed = {name for name, p in parameters.items() if p.default is inspect.Parameter.empty}
    assert needed <= set(given) - set(exhibit.reads_if_there)


@pytest.mark.parametrize(("paper", "exhibit"), EXHIBITS)
def test_an_exhibit_has_a_title_and_a_caption_and_its_printed_numbers(paper, exhibit):
    assert exhibit.title and exhibit.caption.endswith(".") and "  " not in exhibit.caption
    if exhibit.printed:
        assert len(printed.table(paper.name, exhibit.printed))
    exhibits = exhibit.options.get("exhibits", [])
    groups = exhibits.values() if isinstance(exhibits, dict) else [exhibits]
    for name in (name for group in groups for name in group):
        assert len(printed.scores(paper.name, [name])), name


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_names_of_exhibits_are_distinct_and_claims_have_a_function(paper):
    names = [exhibit.name for exhibit in exhibits_around(paper)]
    assert len(names) == len(set(names))
    for claim in paper.claims:
        for function in filter(None, (claim.units, claim.order)):
            arguments = inspect.signature(resolve_name(function)).parameters
            assert len(arguments) == len(claim.reads) + len(claim.of)


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
    names = set(papers.all_papers())
    files = [*(ROOT / "workflow").rglob("*.*"), *(ROOT / "src").rglob("*.py"), ROOT / "Snakefile"]
    naming = {
        str(path.relative_to(ROOT))
        for path in files
        if "papers" not in path.parts and path.is_file() and names & set(literals(path))
    }
    assert naming == {"src/subtune/selections/methods.py"}
    assert names - set(METHODS) == {"bitfit_plus", "spafit"}
    assert not names - set(METHODS) & set(literals(ROOT / "src/subtune/selections/methods.py"))


def test_what_exhibits_may_be_told_is_what_is_known_of_an_experiment():
    assert set(FACTS) == set(facts.FACTS)


def test_a_printed_number_is_part_of_what_decides_a_table():
    versions = {papers.version_of_printed(name) for name in [*papers.all_papers(), None]}
    assert len(versions) == 5
