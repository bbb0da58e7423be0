"""The papers, one package each, and the settings that experiments take from their papers."""

import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.claims import Claim
from subtune.config.schema import Config
from subtune.core.errors import (
    SubtuneError,
    convert_errors,
    format_allowed,
    join_names,
    locate_errors,
)
from subtune.core.user_code import find_entry_points, import_user_code, locate_user_errors
from subtune.exhibits.output import ExperimentResults, Figure, Needs, StyledTable, Table
from subtune.papers.paper import Paper
from subtune.plan.plan import Plan

# The placeholder for experiments that reproduce no paper.
NO_PAPER = Paper(name="", citation="")


# The group of entry points of installed packages.
PAPERS = "subtune.papers"


def paper_names() -> list[str]:
    """Return the names of all built-in papers, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


@cache
def find_paper(name: str | None) -> Paper:
    """Return the paper with this name, or `NO_PAPER` if the name is empty or None.

    The name is that of a built-in paper, or of an entry point whose value is a package, or the
    folder of a package. The package defines the paper as `PAPER`.

    Raises:
        SubtuneError: there is no such paper, or its package cannot be imported.
    """
    if not name:
        return NO_PAPER
    built_in = paper_names()
    packages = {paper: f"{__name__}.{paper}" for paper in built_in}
    if name not in packages:
        packages |= find_entry_points(PAPERS, built_in)
    is_folder = Path(name, "__init__.py").is_file()
    if name in packages and is_folder:
        raise SubtuneError(
            f"found {name!r}, which is a folder and the name of another paper; write ./{name} for "
            "the folder, or rename it"
        )
    if name not in packages and not is_folder:
        known = format_allowed(name, packages)
        raise SubtuneError(
            f"{known}, or a folder with the file __init__.py; relative paths begin at {Path.cwd()}"
        )
    module = import_user_code(packages.get(name, name).removesuffix(":PAPER"))
    paper = getattr(module, "PAPER", None)
    if not isinstance(paper, Paper):
        found = f"PAPER of the type {type(paper).__name__}" if paper is not None else "no PAPER"
        raise SubtuneError(f"{name}: found {found}, expected one of the type Paper")
    with locate_errors(name):
        require_fields(paper)
    paper = replace(paper, name=name, package=Path(str(module.__file__)).parent)
    if paper.is_built_in:
        return paper
    located = [
        replace(exhibit, make=partial(_make_exhibit, exhibit, paper)) for exhibit in paper.exhibits
    ]
    return replace(paper, exhibits=located)


def _make_exhibit(exhibit: Table, paper: Paper, results: ExperimentResults) -> Any:
    """Make a table or figure of the user's paper. A `SubtuneError` names it."""
    place, file = f"{paper.name}: exhibits: {exhibit.name}", paper.package / "__init__.py"
    with locate_user_errors(place, file=file):
        made, found = exhibit.make(results), "found a result of the type"
        if isinstance(exhibit, Figure):
            if not hasattr(made, "savefig"):
                raise SubtuneError(f"{found} {type(made).__name__}, expected a figure")
        elif not isinstance(made, pd.DataFrame | StyledTable):
            raise SubtuneError(f"{found} {type(made).__name__}, expected a DataFrame")
    return made


def require_fields(paper: Paper) -> None:
    """Raise a `SubtuneError` if fields have wrong types, or a table's or figure's name is taken."""
    if not isinstance(paper.citation, str):
        raise SubtuneError(f"PAPER: citation: found {paper.citation!r}, expected text")
    if not isinstance(paper.exhibits, list | tuple) or not all(
        isinstance(exhibit, Table) for exhibit in paper.exhibits
    ):
        raise SubtuneError("PAPER: exhibits: expected a list of Table and Figure")
    if not all(isinstance(claim, Claim) for claim in paper.claims):
        raise SubtuneError("PAPER: claims: expected those that `read_claims` returns")
    for exhibit in paper.exhibits:
        with locate_errors(f"PAPER: exhibits: {exhibit.name}"):
            require_usable(exhibit)
    names = Counter(exhibit.name for exhibit in replace(paper, name="own").all_exhibits())
    if repeated := [name for name, number in names.items() if number > 1]:
        raise SubtuneError(f"PAPER: exhibits: the name {repeated[0]!r} is taken; choose another")


def require_usable(exhibit: Table) -> None:
    """Raise a `SubtuneError` if a table's or figure's function or needs cannot be used."""
    try:
        inspect.signature(exhibit.make).bind("results")
    except (TypeError, ValueError) as error:
        raise SubtuneError(f"make: {error}; expected a function of the results") from None
    if not isinstance(exhibit.needs, Needs):
        raise SubtuneError(f"needs: found {exhibit.needs!r}, expected Needs(methods=(...), ...)")
    for name in ("methods", "tables"):
        if isinstance(found := getattr(exhibit.needs, name), str):
            raise SubtuneError(f"needs: {name}: found {found!r}, expected a tuple of names")


def assign_papers(config: Config) -> Config:
    """Set ``paper`` in experiments with the name of a paper, and check each experiment's paper.

    A `SubtuneError` is raised if a paper is unknown, or if it shows the Fisher information of one
    model but the experiment has several models.
    """
    problems, named = [], {}
    for name, experiment in config.experiments.items():
        if "paper" not in experiment.model_fields_set and name in paper_names():
            experiment = experiment.model_copy(update={"paper": name})
        named[name] = experiment
        try:
            with locate_errors(f"experiments.{name}.paper"):
                paper = find_paper(experiment.paper)
            for check in (paper.check_scores, paper.check_counts, paper.read_choices):
                with convert_errors(str(paper.package)):
                    check()
        except SubtuneError as error:
            problems.append(str(error))
            continue
        if len(experiment.models) > 1 and paper.shows_information():
            problems.append(
                f"experiments.{name}.models: found {len(experiment.models)} models, expected one, "
                f"because {experiment.paper} shows the Fisher information of one model; write one "
                "experiment for each model"
            )
    if problems:
        raise SubtuneError("\n".join(problems))
    return config.model_copy(update={"experiments": named})


def list_omissions(config: Config) -> Iterator[str]:
    """Yield a line for an experiment that tests no claim, and for each method an exhibit lacks."""
    for name, experiment in config.experiments.items():
        paper, given = find_paper(experiment.paper), {*experiment.tasks}
        tasks = paper.list_printed_tasks()
        if paper.claims and tasks and not given & (tasks | {*paper.tasks_apart}):
            why = f"none is about its tasks (the paper's tasks: {join_names(sorted(tasks))})"
            yield f"experiments.{name}: no claim is tested, because {why}"
        predicted = (dict(config.all_tasks()[task].predictions) for task in experiment.tasks)
        known = {*experiment.all_methods}.union(*predicted)
        for exhibit in paper.exhibits:
            is_shown = not exhibit.tasks or given & {*exhibit.tasks}
            for method in exhibit.needs.methods:
                if is_shown and method not in known:
                    why = f"the experiment has no method {method!r}"
                    yield f"experiments.{name}: {exhibit.name} is omitted, because {why}"


def experiments_showing_fisher_information(config: Config) -> set[str]:
    """Return the names of the experiments whose tables or figures show Fisher information."""
    return {
        name
        for name, experiment in config.experiments.items()
        if find_paper(experiment.paper).shows_information()
    }


def runs_scored_on_training_set(config: Config, plan: Plan) -> set[str]:
    """Return the keys of runs on the largest training sets that are also scored on these sets."""
    return {
        run.key
        for name, experiment in config.experiments.items()
        for paper in [find_paper(experiment.paper)]
        for run in plan.runs_on_most_rows(name)
        if run.method in paper.scored_on_training_set and run.task_name not in paper.tasks_apart
    }
