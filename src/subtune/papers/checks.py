"""Checks of a paper, before an experiment reproduces it."""

from collections.abc import Iterator
from pathlib import Path

from subtune.analysis.claims import DOES_NOT_HOLD, HOLDS, NOT_PRINTED, Claim, evaluate_claims
from subtune.config.code_checks import Check, run_check
from subtune.core.user_code import find_entry_points
from subtune.papers import PAPERS, find_paper, paper_names


def is_paper(name: str) -> bool:
    """Return whether a name is that of a paper, or of a folder with a package."""
    built_in = paper_names()
    known = {*built_in, *find_entry_points(PAPERS, built_in)}
    return name in known or Path(name, "__init__.py").is_file()


def check_paper(name: str) -> Iterator[Check]:
    """Check a paper's printed scores and choices, and test its claims on the printed numbers.

    Raises:
        SubtuneError: the paper or its claims cannot be read.
    """
    paper = find_paper(name)
    yield Check("kind", f"passed: paper, {paper.citation}")
    printed_scores = run_check("printed/scores.csv", paper.check_scores)
    yield printed_scores
    yield run_check("choices.yaml", paper.read_choices)
    yield Check("tables and figures", "skipped: they need runs")
    if printed_scores.result != "passed":
        return
    of_tasks, averages = (paper.printed_tables(averages=are) for are in (False, True))
    rows = evaluate_claims(paper.claims, {}, of_tasks, averages, paper.tasks_apart)
    for claim, row in zip(paper.claims, rows.to_dict("records"), strict=True):
        yield Check(f"claim: {claim.text}", _compare_with_printed(claim, row["paper_judged"]))


def _compare_with_printed(claim: Claim, judged: str) -> str:
    if judged == NOT_PRINTED:
        if not claim.is_printed:
            return "skipped: the paper does not print its numbers"
        return "failed: no printed numbers; if the paper prints none, set `is_printed: false`"
    expected = DOES_NOT_HOLD if claim.contradicted_by else HOLDS
    result, expectation = "passed", ""
    if judged != expected:
        result, expectation = "failed", f", expected that it {expected}"
    return f"{result}: it {judged} on the printed numbers{expectation}"
