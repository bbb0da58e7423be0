"""Claims of a paper, read from the `claims.yaml` of its folder."""

import inspect
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter

from subtune.analysis.claims import Claim
from subtune.analysis.statistics import parameters, scores, sizes
from subtune.core import resources


def read_claims(package: str, *own: ModuleType) -> tuple[Claim, ...]:
    """Return the claims of the paper in a package, in their order.

    A claim has the fields of `Claim`. Instead of ``units`` and ``of`` it has the name of a
    statistic, with a list of its arguments. Statistics are functions of
    `subtune.analysis.statistics` and of the paper's ``own`` modules.
    """
    statistics: dict[str, Any] = {}
    for module in (scores, parameters, sizes, *own):
        statistics |= inspect.getmembers(module, inspect.isfunction)
    rows = [dict(row) for row in resources.read_yaml(package, "claims.yaml")]
    for row in rows:
        for name in statistics.keys() & row:
            row |= {"units": statistics[name], "of": row.pop(name)}
        if "order" in row:
            row["order"] = statistics[row["order"]]
    return TypeAdapter(tuple[Claim, ...]).validate_python(rows)
