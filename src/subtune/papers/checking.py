"""What is wrong with a paper's declarations, found without importing what draws or computes.

Functions are looked up in the text of their modules.
"""

import ast
import csv
import importlib.util
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import get_args

from subtune.core.errors import one_of
from subtune.papers.base import (
    DATA,
    DATA_OF_CLAIMS,
    FACTS,
    Claim,
    Figure,
    Kind,
    Measure,
    Paper,
    Table,
)
from subtune.papers.common import exhibits_around

NAME = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)?")
PRINTED = Path(__file__).parent / "printed"


def problems(paper: Paper, module: str) -> Iterator[str]:
    """One line per problem of a paper.

    Args:
        paper: what the module declares.
        module: the module's name.
    """
    if paper.name != module:
        yield f"name: found {paper.name!r}, expected {module!r}, as the module is called"
    exhibits = exhibits_around(paper)
    names = [exhibit.name for exhibit in exhibits]
    for name in {name for name in names if names.count(name) > 1}:
        yield f"{name}: found twice, expected another name than others here and in common.py have"
    for exhibit in exhibits:
        yield from (f"{exhibit.name}: {problem}" for problem in _of_exhibit(paper, exhibit))
    yield from _unknown("printed_data", paper.printed_data, [*DATA, *DATA_OF_CLAIMS])
    for field in ("printed_data", "printed_learning_rates"):
        for file in getattr(paper, field).values():
            yield from _missing(field, paper.name, file)
    for claim in paper.claims:
        yield from (f"claim {claim.text!r}: {problem}" for problem in _of_claim(claim))


def _of_exhibit(paper: Paper, exhibit: Table) -> Iterator[str]:
    if not NAME.fullmatch(exhibit.name):
        yield "name: expected small letters, digits and underscores"
    data = {**exhibit.reads, **exhibit.reads_if_there}
    numbers = [exhibit.numbers] if isinstance(exhibit, Figure) and exhibit.numbers else []
    yield from _unknown("reads", [*data.values(), *numbers], DATA)
    yield from _unknown("facts", exhibit.facts, FACTS)
    if exhibit.printed:
        yield from _missing("printed", paper.name, exhibit.printed)
    names = exhibit.options.get("exhibits", ())
    groups = names.values() if isinstance(names, dict) else [names]
    yield from _unknown(
        "options.exhibits", [name for group in groups for name in group], _printed(paper.name)
    )
    arguments = [*data, *exhibit.facts, *exhibit.options]
    arguments += ["printed"] * bool(exhibit.printed) + ["style"] * isinstance(exhibit, Figure)
    yield from _of_call("make", exhibit.make, arguments, exhibit.reads_if_there)


def _missing(field: str, paper: str, file: str) -> Iterator[str]:
    if not (PRINTED / paper / f"{file}.csv").is_file():
        yield f"{field}: found no file printed/{paper}/{file}.csv"


def _of_claim(claim: Claim) -> Iterator[str]:
    yield from _unknown("kind", [claim.kind], get_args(Kind))
    yield from _unknown("measure", [claim.measure], get_args(Measure))
    if claim.at_least and not 0 < claim.at_least[0] <= claim.at_least[1]:
        yield f"at_least: found {claim.at_least}, expected a number and of how many: (5, 9)"
    if isinstance(claim.reads, str):
        yield f"reads: found {claim.reads!r}, expected a tuple of names: ({claim.reads!r},)"
        return
    yield from _unknown("reads", claim.reads, [*DATA, *DATA_OF_CLAIMS])
    for field, function in (("units", claim.units), ("order", claim.order)):
        if function is None:
            continue
        parameters = _parameters(function)
        if parameters is None:
            yield f"{field}: found no function {function!r}, expected 'module:function'"
        elif len(parameters) != len(claim.reads) + len(claim.of):
            yield (
                f"of: found {len(claim.of)} values, expected "
                f"{len(parameters) - len(claim.reads)}, which {function.partition(':')[2]} takes "
                f"beside {len(claim.reads)} of data"
            )


def _of_call(
    field: str, function: str, arguments: Collection[str], optional: Collection[str]
) -> Iterator[str]:
    parameters = _parameters(function)
    if parameters is None:
        yield f"{field}: found no function {function!r}, expected 'module:function'"
        return
    yield from _unknown(field, arguments, parameters)
    for name, has_default in parameters.items():
        if not has_default and (name not in arguments or name in optional):
            yield f"{field}: {function} needs {name!r}, which is not among reads, facts and options"


def _unknown(field: str, names: Collection[str], known: Collection[str]) -> Iterator[str]:
    yield from (f"{field}: {one_of(name, known)}" for name in names if name not in known)


def _parameters(function: str) -> dict[str, bool] | None:
    """A function's parameters, to whether they have a default; none where it is not there."""
    module, _, name = function.partition(":")
    definition = _functions(module).get(name)
    if definition is None:
        return None
    arguments = definition.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    without = len(names) - len(arguments.defaults)
    parameters = {name: number >= without for number, name in enumerate(names)}
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return parameters | {a.arg: default is not None for a, default in keywords}


@cache
def _functions(module: str) -> dict[str, ast.FunctionDef]:
    """The functions of a module, or of a package and its modules' that it imports, by name."""
    path = _source(module)
    if path is None:
        return {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name: functions[alias.name]
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{module}.")
        for functions in [_functions(str(node.module))]
        for alias in node.names
        if alias.name in functions
    }
    return imported | {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _source(module: str) -> Path | None:
    """The file of a module. Looking up a module in a package's way would import the package."""
    top, *parts = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        return None
    if not parts:
        return Path(spec.origin)
    inner = Path(spec.origin).parent.joinpath(*parts)
    paths = inner.with_name(f"{inner.name}.py"), inner / "__init__.py"
    return next((path for path in paths if path.is_file()), None)


def _printed(paper: str) -> list[str]:
    """The exhibits whose scores a paper's file has."""
    path = PRINTED / paper / "scores.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(dict.fromkeys(row.get("exhibit", "") for row in csv.DictReader(file)))
