"""Papers' declarations are complete, and no other file names a paper."""

import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from subtune import papers
from subtune.analysis.statistics import (
    best_minus,
    minus,
    minus_at_train_size,
    minus_printed,
    parameters_of_families,
)
from subtune.core.errors import SubtuneError
from subtune.core.files import read_package_yaml
from subtune.methods import METHODS
from subtune.papers.paper import INFORMATION, PRINTED_COLUMNS, read_claims
from subtune.steps.scores import SCORE_TABLES
from tests.helpers.project import ROOT

PAPERS = [papers.find_paper(name) for name in papers.paper_names()]
EXHIBITS = [
    pytest.param(exhibit, id=f"{paper.name or 'none'}-{exhibit.name}")
    for paper in [*PAPERS, papers.NO_PAPER]
    for exhibit in paper.all_exhibits()
]


@pytest.mark.parametrize("exhibit", EXHIBITS)
def test_an_exhibit_is_declared_whole(exhibit):
    assert exhibit.title and exhibit.caption.endswith(".") and "  " not in exhibit.caption
    inspect.signature(exhibit.make).bind("results")


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_claim_is_declared_whole_and_says_where_it_is_printed(paper):
    assert (Path(papers.__file__).parent / paper.name).is_dir()
    texts = [claim.text for claim in paper.claims]
    assert texts and len(texts) == len(set(texts))
    names = [exhibit.name for exhibit in paper.all_exhibits()]
    assert len(names) == len(set(names))
    made = {*SCORE_TABLES, *INFORMATION, "train_scores", "test_scores"}
    for claim in paper.claims:
        assert claim.printed_in and claim.statistic
        assert set(claim.reads) <= {*made, "printed", "train_rows"}


def test_five_statistics_carry_most_claims():
    shared = [minus, best_minus, minus_printed, minus_at_train_size, parameters_of_families]
    claims = [claim for paper in PAPERS for claim in paper.claims]
    others = [claim.units for claim in claims if claim.units not in shared]
    assert len(others) < 0.4 * len(claims)


def words(path: Path) -> set[str]:
    """Quoted words in a file."""
    return set(re.findall(r'"(\w+)"', path.read_text(encoding="utf-8")))


def test_no_other_file_of_the_library_or_the_workflow_names_a_paper():
    """Three papers have a method with the paper's name; methods may be named elsewhere."""
    names = set(papers.paper_names())
    files = [*(ROOT / "workflow").rglob("*.*"), *(ROOT / "src").rglob("*.py"), ROOT / "Snakefile"]
    naming = {
        str(path.relative_to(ROOT))
        for path in files
        if "papers" not in path.relative_to(ROOT).parts
        and path.is_file()
        and not path.is_symlink()
        and names & words(path)
    }
    assert naming == {"src/subtune/methods/__init__.py"}
    assert names - set(METHODS) == {"bitfit_plus", "spafit"}
    assert not names - set(METHODS) & words(ROOT / "src/subtune/methods/__init__.py")


@pytest.fixture
def toys(tmp_path):
    """A paper without files."""
    paper = replace(papers.NO_PAPER, name="toys", package=tmp_path)
    paper.folder.mkdir()
    return paper


def write_scores(paper, rows):
    (paper.folder / "scores.csv").write_text(
        "\n".join([",".join(PRINTED_COLUMNS["scores"]), *rows])
    )


def test_printed_numbers_and_claims_are_part_of_what_decides_a_table(toys):
    versions = {toys.files_hash()}
    for path in (toys.folder.parent / "claims.yaml", toys.folder / "scores.csv"):
        path.write_text("[]")
        versions.add(toys.files_hash())
    assert len(versions) == 3


@pytest.mark.parametrize(
    ("counts", "trained"),
    [
        (["51202", "274434"], {"a": 51202, "b": 274434}),
        (["51202", "", "7"], {"a": 51202, "c": 7}),
        (['"51,202"', "0.27M", "7"], {"a": 51202, "b": 270000, "c": 7}),
        (["51202", "0.1%"], {"a": 51202}),
    ],
)
def test_printed_counts_are_numbers_however_they_are_written(toys, counts, trained):
    rows = [f"bert,{method},{count}" for method, count in zip("abc", counts, strict=False)]
    text = "\n".join(["model,method,printed", *rows])
    (toys.folder / "parameter_counts.csv").write_text(text)
    write_scores(toys, [f"table1,bert,validation,{method},,rte,accuracy,1,1" for method in "abc"])
    shown = toys.printed_tables(averages=False)["chosen"].set_index("method")["trainable"]
    assert shown.dropna().to_dict() == trained


@pytest.mark.parametrize(
    ("mistake", "line", "problem"),
    [
        ("minuss: [a, b]", 6, "did you mean 'minus'"),
        ("minus: [a]", 6, "missing a required argument: 'second'; its arguments are chosen, fi"),
        ("minus: [a, b, c]", 6, "minus: too many positional arguments; its arguments are chosen,"),
        ("minus: a", 6, "minus: found 'a', expected a list of arguments"),
        ("minus: [a, a]", 6, "minus: found 'a' twice, expected two families of methods"),
        ("minus_at_train_size: [null, min, a, a]", 6, "found 'a' twice, expected two families"),
        ("minus: [a, b]\n  of: [a, b]", 6, "found 'of', expected one of"),
        ("minus: [a, b]\n  margin: -1", 6, "margin: found -1.0, expected 0 or more"),
        ("minus: [a, b]\n  margin: 2", 6, "margin: found 2.0, expected a share of a perfect score"),
        ("minus: [a, b]\n  measure: points", 6, "measure"),
        ("minus: [a, b]\n  tasks: rte", 6, "tasks"),
        ("minus: [a, b", 11, "expected ',' or ']'"),
        ("minus: [a, b]\n  each_minus: [a, b, 2]", 6, "found 2 statistics"),
        ("at_least: [1, 2]", 6, "found 0 statistics"),
        ("minus: [a, b]\n  at_least: [3, 1]", 6, "found [3, 1]"),
        ("minus: [a, b]\n  # as above", 6, "this claim repeats an earlier line"),
    ],
)
def test_a_mistake_in_a_claim_is_refused_by_its_file_and_line(
    mistake, line, problem, tmp_path, monkeypatch
):
    claim = "- text: t\n  printed_in: '2'\n  statistic: a − b\n  expects: more\n"
    other = claim if "as above" in mistake else claim.replace("text: t", "text: u")
    text = f"{claim}  minus: [a, b]\n{other}  {mistake}\n"
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "__init__.py").touch()
    (tmp_path / "toys" / "claims.yaml").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toys", raising=False)
    read_package_yaml.cache_clear()
    with pytest.raises(
        SubtuneError, match=rf"toys/claims.yaml, line {line}: .*{re.escape(problem)}"
    ):
        read_claims("toys")


SCORE = "table1,m,validation,full,1%,rte,accuracy,80.0,100"


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([SCORE, SCORE.replace("80.0", "8O.0")], "scores.csv, line 3: value: found '8O.0'"),
        ([SCORE.replace("80.0", "")], "scores.csv, line 2: value: found ''"),
        ([SCORE.replace("80.0", "800")], "scores.csv, line 2: value: found '800'"),
        ([SCORE.replace("validation", "valid")], "scores.csv, line 2: split: found 'valid', exp"),
        ([SCORE, SCORE], "scores.csv, line 3: this score repeats an earlier line"),
    ],
)
def test_a_mistake_in_a_printed_score_is_refused_by_its_line(rows, problem, toys):
    write_scores(toys, rows)
    with pytest.raises(SubtuneError, match=re.escape(problem)):
        toys.check_scores()


@pytest.mark.parametrize("text", ["exhibit,model\ntable1,m\n", ""])
def test_printed_scores_have_all_columns(text, toys):
    (toys.folder / "scores.csv").write_text(text)
    with pytest.raises(SubtuneError, match="no column"):
        toys.check_scores()


def test_a_paper_is_judged_by_the_dev_sets_and_methods_that_it_prints():
    """SPAFIT prints only the matched dev set of MNLI; BEFT's tables were not available."""
    rows = [("mnli", "mnli_matched", "full"), ("mnli", "mnli_mismatched", "full"),
            ("rte", "rte", "SPAFIT-1-3-I"), ("wnli", "wnli", "adapter"),
            ("mine", "mine", "full")]  # fmt: skip
    table = pd.DataFrame(rows, columns=["task", "column", "method"])
    spafit, beft = papers.find_paper("spafit"), papers.find_paper("beft")
    assert spafit.select_evaluated(table)["column"].tolist() == ["mnli_matched", "rte"]
    assert len(beft.select_evaluated(table)) == len(rows)
    assert not spafit.claims_for_tasks(["mine"]) and spafit.claims_for_tasks(["mine", "wnli"])
