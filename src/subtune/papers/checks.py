"""Checks of a paper, before an experiment reproduces it."""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from subtune.analysis.claims import (
    DOES_NOT_HOLD,
    HOLDS,
    NOT_PRINTED,
    Claim,
    evaluate_claims,
)
from subtune.analysis.statistics import match_family
from subtune.config.code_checks import Check, run_check
from subtune.core.errors import SubtuneError, format_allowed, join_names
from subtune.core.user_code import find_entry_points
from subtune.papers import PAPERS, find_paper, paper_names
from subtune.papers.paper import Paper


def is_paper(name: str) -> bool:
    """Return whether a name is that of a paper, or of a folder."""
    built_in = paper_names()
    return name in {*built_in, *find_entry_points(PAPERS, built_in)} or Path(name).is_dir()


def check_paper(name: str) -> Iterator[Check]:
    """Check a paper's printed scores and choices, and test its claims on the printed numbers.

    Raises:
        SubtuneError: the paper or its claims cannot be read.
    """
    paper = find_paper(name)
    yield Check("kind", f"passed: paper, {paper.citation}")
    yield Check("folder", f"passed: {paper.package}")
    files: dict[str, Callable[[], object]] = {
        "printed/scores.csv": partial(_describe_scores, paper),
        "printed/parameter_counts.csv": paper.check_counts,
        "choices.yaml": paper.read_choices,
    }
    for file, check in files.items():
        found = Check(file, "skipped: no such file")
        if (paper.package / file).exists():
            found = run_check(file, check)
        yield found
        if found.result.startswith("failed"):
            return
    # A mistake in the printed numbers is shown with each claim.
    for claim in paper.claims:
        yield run_check(f"claim: {claim.text}", partial(_judge, paper, claim))
    yield Check("tables and figures", "skipped: they need runs")


def _describe_scores(paper: Paper) -> str:
    """Check the printed scores, and name their tables, methods, tasks and metrics."""
    paper.check_scores()
    scores = paper.read_printed("scores")
    columns = ("exhibit", "method", "task", "metric")
    exhibits, *others = (join_names(scores[name].unique()) for name in columns)
    return f"passed: {len(scores)} scores in {exhibits}: {'; '.join(others)}"


def _judge(paper: Paper, claim: Claim) -> str:
    """Test a claim on the printed numbers. A `SubtuneError` is raised for an unexpected result."""
    of_tasks, averages = (paper.printed_tables(averages=each) for each in (False, True))
    table = evaluate_claims([claim], {}, of_tasks, averages, paper.tasks_apart)
    [row] = table.to_dict("records")
    judged = row["paper_judged"]
    if judged == NOT_PRINTED:
        if not claim.is_printed:
            return "skipped: the paper does not print its numbers"
        methods = paper.read_printed("scores")["method"].unique()
        given = inspect.signature(claim.units).bind(*claim.reads, *claim.of).arguments
        for pattern in (given[name] for name in ("first", "second") if name in given):
            if len(methods) and not match_family(methods, str(pattern)):
                raise SubtuneError(f"no printed score: {format_allowed(pattern, methods)}")
        raise SubtuneError(
            "found no printed numbers; check the names of its methods, tasks and tables, or set "
            "`is_printed: false` if the paper prints none"
        )
    if claim.contradicted_by and judged == DOES_NOT_HOLD:
        return "passed: it does not hold on the printed numbers, as `contradicted_by` says"
    if claim.contradicted_by or judged != HOLDS:
        raise SubtuneError(f"it {judged} on the printed numbers")
    return "passed: it holds on the printed numbers"
