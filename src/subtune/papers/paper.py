"""Values that declare a paper: its tables, figures and claims, and what they read."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter

from subtune.analysis import statistics
from subtune.analysis.claims import Claim
from subtune.config import Config, Experiment
from subtune.core import resources
from subtune.tasks import Task
from subtune.tasks.task import columns_of

# Tables of numbers that `workflow/rules/analysis.smk` and `submission.smk` make for exhibits and
# claims. ``sizes`` has all numbers of training rows, in every metric; ``chosen`` only the largest
# number. ``models`` are the directories of an experiment's models. Claims can also read ``printed``
# (the paper's own scores) and ``train_rows`` (how many each task trains on).
DATA = (
    "scores", "chosen", "row_scores", "sizes", "learning_curves", "train_scores", "test_scores",
    "claims", "reproduction", "changes", "parameter_changes", "component_shares",
    "parameter_information", "layernorm_information", "global_layernorm_information",
    "submission", "models",
)  # fmt: skip
# Tables that are made from the Fisher information of one model.
INFORMATION = {"component_shares", "parameter_information", "layernorm_information"}


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

    def data(self, *, needed: bool = False) -> dict[str, str]:
        """Return arguments to the names of their data, or only those that are ``needed``."""
        parameters = inspect.signature(self.make).parameters
        names = {name: name for name in parameters if name in DATA} | dict(self.reads)
        without_default = [n for n, p in parameters.items() if p.default is p.empty]
        return {n: of for n, of in names.items() if not needed or n in without_default}

    def from_config(self) -> list[str]:
        """Return the arguments that are taken from the configuration."""
        names = inspect.signature(self.make).parameters
        return [n for n in names if n in FROM_CONFIG and n not in {*self.options, *self.reads}]


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


def _tasks(config: Config, experiment: Experiment) -> list[Task]:
    tasks = config.all_tasks()
    return [tasks[name] for name in experiment.tasks]


def task_titles(config: Config, experiment: Experiment) -> dict[str, str]:
    """Return an experiment's tasks to their titles, in its order."""
    return {task.name: task.title for task in _tasks(config, experiment)}


def _task_metrics(config: Config, experiment: Experiment) -> list[dict[str, Any]]:
    """Return the title, the metrics and the splits for evaluation of each task."""
    return [
        {"title": task.title, "metrics": [*task.metrics], "evaluation": [*task.evaluation]}
        for task in _tasks(config, experiment)
    ]


def _source(config: Config, experiment: Experiment) -> str:
    """Return in words where an experiment's rows come from."""
    users = {*config.tasks, *config.directories}
    sources = ("files" if task in users else f"{config.source} data" for task in experiment.tasks)
    return " and ".join(dict.fromkeys(sources))


# Each returns lists, dictionaries, text and numbers alone, so that Snakemake sees what has changed.
FROM_CONFIG: dict[str, Callable[[Config, Experiment], Any]] = {
    "task_titles": task_titles,
    "column_titles": lambda config, experiment: {
        column.key: column.title for column in columns_of(_tasks(config, experiment), {})
    },
    "tasks": _task_metrics,
    "source": _source,
    "model_names": lambda config, experiment: list(experiment.models),
    # Each method's selection as canonical JSON.
    "selections": lambda config, experiment: {
        method: config.selection(method).canonical() for method in experiment.all_methods()
    },
}


def read_claims(package: str, *own: ModuleType) -> tuple[Claim, ...]:
    """Return the claims of the paper in a package, in their order.

    A claim has the fields of `Claim`. Instead of ``units`` and ``of`` it has the name of a
    statistic, with a list of its arguments. Statistics are functions of
    `subtune.analysis.statistics` and of the paper's ``own`` modules.
    """
    functions: dict[str, Any] = {}
    for module in (statistics, *own):
        functions |= inspect.getmembers(module, inspect.isfunction)
    rows = [dict(row) for row in resources.read_yaml(package, "claims.yaml")]
    for row in rows:
        for name in functions.keys() & row:
            row |= {"units": functions[name], "of": row.pop(name)}
        if "order" in row:
            row["order"] = functions[row["order"]]
    return TypeAdapter(tuple[Claim, ...]).validate_python(rows)
