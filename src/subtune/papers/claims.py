"""Claims of a paper, read from the `claims.yaml` of its folder."""

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

from subtune.analysis.claims import Claim
from subtune.analysis.statistics import parameters, scores
from subtune.core import resources

# Statistics that claims of any paper can ask for.
SHARED: tuple[Callable[..., Any], ...] = (
    scores.minus,
    scores.minus_printed,
    scores.best_minus,
    scores.best_on_average_minus,
    scores.family_minus,
    scores.fraction_minus_whole,
    scores.scope_minus,
    parameters.parameters_of_families,
    parameters.changes_to_largest_other,
    parameters.share_to_largest_other,
    parameters.ranks_first,
    parameters.rank_of_layers,
)


def read_claims(package: str, *own: Callable[..., Any]) -> tuple[Claim, ...]:
    """Return the claims of the paper in a package, in their order.

    A claim has the fields of `Claim`. Instead of ``units`` and ``of`` it has the name of a
    statistic, with a list of its arguments: one of `SHARED`, or of the paper's ``own``.
    """
    statistics = {function.__name__: function for function in (*SHARED, *own)}
    rows = [dict(row) for row in resources.read_yaml(package, "claims.yaml")]
    for row in rows:
        for name in statistics.keys() & row:
            row |= {"units": statistics[name], "of": row.pop(name)}
        if "order" in row:
            row["order"] = statistics[row["order"]]
    return TypeAdapter(tuple[Claim, ...]).validate_python(rows)
