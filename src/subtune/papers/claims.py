"""Claims of a paper, read from the `claims.yaml` of its folder."""

from collections.abc import Callable, Mapping
from typing import Any

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
    return tuple(_claim(row, statistics) for row in resources.read_yaml(package, "claims.yaml"))


def _claim(row: Mapping[str, Any], statistics: Mapping[str, Callable[..., Any]]) -> Claim:
    fields = {key: _as_tuples(value) for key, value in row.items()}
    for name in statistics.keys() & fields:
        fields |= {"units": statistics[name], "of": fields.pop(name)}
    if "order" in fields:
        fields["order"] = statistics[fields["order"]]
    return Claim(**fields)


def _as_tuples(value: Any) -> Any:
    """Return a value with tuples in the place of lists."""
    if isinstance(value, dict):
        return {key: _as_tuples(inner) for key, inner in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
