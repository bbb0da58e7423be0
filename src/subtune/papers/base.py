"""What a paper is here: its tables, figures and claims, declared as values.

Functions are named by text, ``module:function``, and imported when they are called, so that code
that only plans does not load what draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

Kind = Literal["more", "same", "no less"]
Measure = Literal["score", "ratio", "share", "rank correlation", "epochs"]
# A value nearer to 0 than this counts as no difference: two points of a score, 5 % of a ratio, 2 %
# of all information, a weak rank correlation.
EQUIVALENCE_MARGINS: dict[Measure, float] = {
    "score": 0.02,
    "ratio": 0.05,
    "share": 0.02,
    "rank correlation": 0.1,
    "epochs": 0.0,
}
# Numbers that exhibits and claims read, which `workflow/rules/analysis.smk` and `submission.smk`
# make; ``models`` are the directories of an experiment's models. Where there are several numbers of
# training rows, ``sizes`` has all, in every metric, and ``chosen`` the largest.
DATA = (
    "scores", "chosen", "sizes", "learning_curves", "train_scores", "test_scores", "claims",
    "reproduction", "changes", "parameter_changes", "component_shares", "layernorm_information",
    "global_layernorm_information", "submission", "models",
)  # fmt: skip
# What claims read beside them: the paper's own scores, and how many rows each task trains on.
DATA_OF_CLAIMS = ("printed", "train_rows")
# What `subtune.exhibits.facts` knows of an experiment.
FACTS = (
    "paper", "source", "tasks", "columns", "task_titles", "column_titles", "models", "selections",
)  # fmt: skip


@dataclass(frozen=True)
class Needs:
    """What an experiment must have for something to be made of it.

    ``seeds`` is the least number of seeds, ``sizes`` of numbers of training rows; ``test_scores``
    are those that the GLUE server returned, ``submissions`` the files that it takes.
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

    Attributes:
        name: the name of its files; ``table2`` is shown as Table 2.
        title: what it shows, as a heading.
        caption: what a reader must know of it.
        make: the function that returns it, a data frame or a `Styled` table.
        reads: the function's arguments that are numbers, to their name in `DATA`.
        reads_if_there: the same, where an argument has a default.
        facts: the function's arguments that are among `FACTS`.
        printed: the paper's own table that is passed as ``printed``, a file in its folder.
        options: the function's other arguments.
        needs: without which an experiment does not have it; what is read has needs too.
        tasks: the tasks that it is about, of which an experiment must have one; where there are
            none all, of a paper's exhibits without those that the paper has apart.
    """

    name: str
    title: str
    caption: str
    make: str
    reads: Mapping[str, str] = field(default_factory=dict)
    reads_if_there: Mapping[str, str] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    printed: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: Needs = Needs()
    tasks: tuple[str, ...] = ()

    def declaration(self, paper: str) -> dict[str, Any]:
        """How it is made, beside data and facts, as plain values."""
        printed = [paper, self.printed] if self.printed else None
        return {"make": self.make, "printed": printed, "options": dict(self.options)}


@dataclass(frozen=True)
class Figure(Table):
    """A figure, drawn as PNG and PDF. ``make`` returns it, and takes ``style`` beside the rest.

    ``style`` names its settings under ``figures`` in a configuration; without it they have the
    figure's own name. ``numbers``: the data that are offered beside it.
    """

    style: str = ""
    numbers: str | None = None

    @property
    def style_name(self) -> str:
        return self.style or self.name


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, the statistic by which it is asked, and how the paper judges.

    Attributes:
        text: what it says.
        printed_in: the section and the exhibits.
        statistic: what is computed, in words.
        kind: what would support it, as `subtune.analysis.verdicts` defines it.
        measure: what the statistic is a difference of; a ratio's is one of logarithms.
        reads: the names of the data that ``units`` is asked of.
        units: the function that returns one number per cell, 0 where nothing differs.
        of: what it takes beside the data.
        tasks: the tasks that the claim is about; where there are none all, without those that the
            paper has apart.
        at_least: in how many cells, of how many, the paper finds what ``kind`` says; as large a
            share decides of ours. Without it the mean decides.
        order: a function of the same arguments that decides instead, for what is no mean or count.
        groups: two methods; the Kruskal–Wallis test between their scores decides instead.
        margin: what counts as none, where it is not that of all claims of this measure.
        is_printed: whether the paper prints numbers that it can be asked of.
        contradicted_by: the printed number that contradicts the claim, where one does.
    """

    text: str
    printed_in: str
    statistic: str
    kind: Kind
    measure: Measure = "score"
    reads: tuple[str, ...] = ("chosen",)
    units: str = "subtune.analysis.statistics:minus"
    of: tuple[Any, ...] = ()
    tasks: tuple[str, ...] = ()
    at_least: tuple[int, int] | None = None
    order: str | None = None
    groups: tuple[str, str] | None = None
    margin: float | None = None
    is_printed: bool = True
    contradicted_by: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper as a table of contents.

    Attributes:
        name: the name of its module, of its folder of printed numbers, and in configurations.
        citation: what the report calls it.
        exhibits: its tables and figures, in its order.
        claims: what it claims.
        metrics: tasks of which it shows another metric than their first, and chooses epochs and
            learning rates by it. Predictions and changes on record are those of the epoch that is
            best by the task's first metric.
        not_competing: methods that do not compete for the best score of a table.
        quoted: methods whose scores it prints from elsewhere, to what its rows are called.
        scored_on_training_rows: methods whose runs are scored on their training rows too.
        printed_data: data to the paper's table of the same numbers; values are taken as shares per
            task.
        printed_learning_rates: methods to the paper's table of their best learning rates.
        tasks_apart: tasks that have exhibits and claims of their own; those that name no tasks
            leave them out.
    """

    name: str
    citation: str
    exhibits: Sequence[Table] = ()
    claims: Sequence[Claim] = ()
    metrics: Mapping[str, str] = field(default_factory=dict)
    not_competing: tuple[str, ...] = ()
    quoted: Mapping[str, str] = field(default_factory=dict)
    scored_on_training_rows: tuple[str, ...] = ()
    printed_data: Mapping[str, str] = field(default_factory=dict)
    printed_learning_rates: Mapping[str, str] = field(default_factory=dict)
    tasks_apart: tuple[str, ...] = ()

    def asked_on(self, tasks: Sequence[str]) -> Self:
        """The paper with those of its claims that are about some of these tasks."""
        together = set(tasks) - set(self.tasks_apart)
        apart = set(tasks) & set(self.tasks_apart)

        def is_asked(claim: Claim) -> bool:
            names_one_apart = not set(claim.tasks).isdisjoint(self.tasks_apart)
            return not apart.isdisjoint(claim.tasks) if names_one_apart else bool(together)

        return replace(self, claims=[claim for claim in self.claims if is_asked(claim)])

    def left_out(self, part: Table | Claim, tasks: Sequence[str]) -> list[str]:
        """Those of these tasks that one of the paper's exhibits or claims leaves out."""
        if part.tasks:
            return [task for task in tasks if task not in part.tasks]
        return [task for task in tasks if task in self.tasks_apart]
