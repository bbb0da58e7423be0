"""Values that declare a paper: its tables, figures and claims, and the tables they read."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter

from subtune.analysis import statistics
from subtune.analysis.claims import Claim
from subtune.core.layout import read_yaml

# Tables that exhibits and claims read. ``sizes`` has all numbers of training rows in every metric,
# ``chosen`` only the largest number. Claims can also read ``printed`` (the paper's own scores) and
# ``train_rows`` (the number of training rows of each task).
DATA = (
    "scores", "chosen", "row_scores", "sizes", "learning_curves", "train_scores", "test_scores",
    "claims", "reproduction", "changes", "parameter_changes", "component_shares",
    "parameter_information", "layernorm_information", "global_layernorm_information",
)  # fmt: skip


@dataclass(frozen=True)
class Needs:
    """The runs that an experiment must have for a table, a figure or data.

    ``seeds``, ``sizes`` and ``questions`` are the least numbers of seeds, of different numbers of
    training rows, and of pairs of model and task. ``information`` is the Fisher information of one
    model on every task. ``printed`` means scores that the paper prints for some of the tasks,
    ``test_scores`` scores that the GLUE server returned, ``submissions`` files for the server.
    """

    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    seeds: int = 1
    sizes: int = 1
    questions: int = 1
    fractions: bool = False
    information: bool = False
    printed: bool = False
    test_scores: bool = False
    submissions: bool = False


@dataclass(frozen=True)
class Table:
    """A table, written as CSV, Markdown and LaTeX.

    Attributes:
        name: the name of its files; ``table2`` is shown as Table 2.
        title: its heading.
        caption: everything that a reader must know about it.
        make: the function of `subtune.papers.results.Results` that returns it, as a data frame or
            a `Styled` table.
        needs: the runs without which an experiment does not have it.
        tasks: the only tasks that it shows. By default it shows all; a paper's own exhibit then
            leaves out the tasks that the paper treats apart.
    """

    name: str
    title: str
    caption: str
    make: Callable[..., Any]
    needs: Needs = Needs()
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure(Table):
    """A figure, drawn as PNG and PDF. ``make`` takes its style after the results.

    ``style`` names its settings under ``figures`` in a configuration; without it they have the
    figure's own name. ``numbers`` names the data that the report offers beside it.
    """

    style: str = ""
    numbers: str | None = None

    @property
    def style_name(self) -> str:
        return self.style or self.name


@dataclass(frozen=True)
class Paper:
    """A paper as a table of contents.

    Attributes:
        name: the name of its folder, and in configurations.
        citation: its name in the report.
        exhibits: its tables and figures, in its order.
        claims: its claims.
        metrics: tasks to the metric that the paper shows, if it is not their first. This metric
            also chooses epochs and learning rates. Recorded predictions and changes are from the
            epoch that is best by the task's first metric.
        scored_on_training_rows: methods whose runs are also scored on their training rows.
        printed_data: names of data to the paper's table of the same numbers; the workflow reads
            values as shares per task.
        printed_learning_rates: methods to the paper's table of their best learning rates.
        tasks_apart: tasks with exhibits and claims of their own. All other exhibits and claims
            leave them out.
    """

    name: str
    citation: str
    exhibits: Sequence[Table] = ()
    claims: Sequence[Claim] = ()
    metrics: Mapping[str, str] = field(default_factory=dict)
    scored_on_training_rows: tuple[str, ...] = ()
    printed_data: Mapping[str, str] = field(default_factory=dict)
    printed_learning_rates: Mapping[str, str] = field(default_factory=dict)
    tasks_apart: tuple[str, ...] = ()

    def shows_information(self) -> bool:
        """Return whether it shows the Fisher information of an experiment's model."""
        return any(exhibit.needs.information for exhibit in self.exhibits)

    def claims_on(self, tasks: Collection[str]) -> list[Claim]:
        """Return the claims that are about some of these tasks."""
        apart = set(tasks) & set(self.tasks_apart)
        together = set(tasks) - apart
        return [
            claim
            for claim in self.claims
            if (apart & {*claim.tasks} if {*claim.tasks} & {*self.tasks_apart} else together)
        ]


def read_claims(package: str, *own: ModuleType) -> tuple[Claim, ...]:
    """Return the claims of the paper in a package, in their order.

    A claim has the fields of `Claim`. Instead of ``units`` and ``of`` it has the name of a
    statistic, with a list of its arguments. Statistics are functions of
    `subtune.analysis.statistics` and of the paper's ``own`` modules.
    """
    functions: dict[str, Any] = {}
    for module in (statistics, *own):
        functions |= inspect.getmembers(module, inspect.isfunction)
    rows = [dict(row) for row in read_yaml(package, "claims.yaml")]
    for row in rows:
        for name in functions.keys() & row:
            row |= {"units": functions[name], "of": row.pop(name)}
        if "order" in row:
            row["order"] = functions[row["order"]]
    return TypeAdapter(tuple[Claim, ...]).validate_python(rows)
