"""Values that declare a paper: its tables, figures and claims."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from subtune.analysis.claims import Claim
from subtune.analysis.verdicts import Expectation, Measure
from subtune.core.errors import one_of
from subtune.papers.from_config import FROM_CONFIG

# Tables of numbers that `workflow/rules/analysis.smk` and `submission.smk` make for exhibits and
# claims. ``sizes`` has all numbers of training rows, in every metric; ``chosen`` only the largest
# number. ``models`` are the directories of an experiment's models.
DATA = (
    "scores", "chosen", "row_scores", "sizes", "learning_curves", "train_scores", "test_scores",
    "claims", "reproduction", "changes", "parameter_changes", "component_shares",
    "layernorm_information", "global_layernorm_information", "submission", "models",
)  # fmt: skip
# Tables that claims can also read: the paper's own scores, and how many rows each task trains on.
DATA_OF_CLAIMS = ("printed", "train_rows")
# Tables that are made from the Fisher information of one model.
INFORMATION = {"component_shares", "layernorm_information"}


@dataclass(frozen=True)
class Needs:
    """The runs that an experiment must have for a table, a figure or data.

    ``seeds`` and ``sizes`` are the least numbers of seeds and of numbers of training rows.
    ``test_scores`` are those that the GLUE server returned, ``submissions`` the files that it
    takes.
    """

    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    seeds: int = 1
    sizes: int = 1
    fractions: bool = False
    test_scores: bool = False
    submissions: bool = False


@dataclass(frozen=True)
class Table:
    """A table, written as CSV, Markdown and LaTeX.

    Arguments of ``make`` with a name in `DATA` or `FROM_CONFIG` need no declaration. Those with a
    default are left out where there are no such data.

    Attributes:
        name: the name of its files; ``table2`` is shown as Table 2.
        title: its heading.
        caption: what a reader must know about it.
        make: the function that returns it, as a data frame or a `Styled` table.
        reads: other arguments of ``make`` that are data, to the data's names in `DATA`.
        printed: arguments that are printed numbers, to the file in the paper's folder.
        options: all other arguments.
        needs: what an experiment must have, beside the data.
        tasks: the only tasks that it shows. Without them it shows all; a paper's own exhibit then
            leaves out those that the paper treats apart.
    """

    name: str
    title: str
    caption: str
    make: Callable[..., Any]
    reads: Mapping[str, str] = field(default_factory=dict)
    printed: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: Needs = Needs()
    tasks: tuple[str, ...] = ()

    def declaration(self) -> dict[str, Any]:
        """Return what decides how it looks, beside the data, as plain values."""
        function = f"{self.make.__module__}.{self.make.__qualname__}"
        return {"make": function, "printed": dict(self.printed), "options": dict(self.options)}

    def data(self, *, needed: bool = False) -> dict[str, str]:
        """Return arguments to the names of their data, or only those that are ``needed``."""
        parameters = inspect.signature(self.make).parameters
        names = {name: name for name in parameters if name in DATA} | dict(self.reads)
        without_default = [n for n, p in parameters.items() if p.default is p.empty]
        return {n: of for n, of in names.items() if not needed or n in without_default}

    def from_config(self) -> list[str]:
        """Return the arguments that are taken from the configuration."""
        names = inspect.signature(self.make).parameters
        return [
            name
            for name in names
            if name in FROM_CONFIG and name not in {*self.options, *self.reads}
        ]

    def arguments(self) -> list[str]:
        """Return the names of all arguments that ``make`` is called with."""
        return [*self.data(), *self.from_config(), *self.printed, *self.options]


@dataclass(frozen=True)
class Figure(Table):
    """A figure, drawn as PNG and PDF. ``make`` also takes ``style``.

    ``style`` names its settings under ``figures`` in a configuration; without it they have the
    figure's own name. ``numbers`` names the data that the report offers beside it.
    """

    style: str = ""
    numbers: str | None = None

    @property
    def style_name(self) -> str:
        return self.style or self.name

    def arguments(self) -> list[str]:
        return [*super().arguments(), "style"]


@dataclass(frozen=True)
class Paper:
    """A paper as a table of contents.

    Attributes:
        name: the name of its folder, and in configurations.
        citation: what the report calls it.
        exhibits: its tables and figures, in its order.
        claims: what it claims.
        metrics: tasks to the metric that the paper shows, if that is not their first. It also
            chooses epochs and learning rates. Recorded predictions and changes are those of the
            epoch that is best by the task's first metric.
        scored_on_training_rows: methods whose runs are also scored on their training rows.
        printed_data: names of data to the paper's table of the same numbers; the workflow reads
            values as shares per task.
        printed_learning_rates: methods to the paper's table of their best learning rates.
        tasks_apart: tasks with exhibits and claims of their own. Exhibits and claims that name no
            tasks leave them out.
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
        return any(INFORMATION & {*exhibit.data().values()} for exhibit in self.exhibits)


def problems(paper: Paper, folder: str, exhibits: Sequence[Table]) -> Iterator[str]:
    """Yield one line per mistake in a paper's declarations.

    Args:
        paper: what the folder declares.
        folder: the folder's name.
        exhibits: all tables and figures of an experiment that reproduces it.
    """
    if paper.name != folder:
        yield f"name: found {paper.name!r}, expected {folder!r}, the name of its folder"
    names = [exhibit.name for exhibit in exhibits]
    yield from (f"{name}: found twice" for name in {*names} if names.count(name) > 1)
    for exhibit in exhibits:
        yield from _unknown(f"{exhibit.name}: reads", [*exhibit.reads.values()], DATA)
        yield from _misfit(
            f"{exhibit.name}: make", exhibit.make, **dict.fromkeys(exhibit.arguments())
        )
    for claim in paper.claims:
        where = f"claim {claim.text!r}"
        yield from _unknown(f"{where}: reads", claim.reads, (*DATA, *DATA_OF_CLAIMS))
        yield from _unknown(f"{where}: expects", [claim.expects], get_args(Expectation))
        yield from _unknown(f"{where}: measure", [claim.measure], get_args(Measure))
        for function in filter(None, (claim.units, claim.order)):
            yield from _misfit(f"{where}: of", function, *claim.reads, *claim.of)


def _unknown(where: str, names: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    yield from (f"{where}: {one_of(name, known)}" for name in names if name not in known)


def _misfit(where: str, function: Callable[..., Any], *values: Any, **named: Any) -> Iterator[str]:
    try:
        inspect.signature(function).bind(*values, **named)
    except TypeError as error:
        yield f"{where}: {function.__qualname__}: {error}"
