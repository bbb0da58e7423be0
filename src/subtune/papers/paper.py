"""Declarations of papers: tables, figures, claims and printed numbers."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pandas as pd
from pydantic import TypeAdapter

from subtune.analysis import statistics
from subtune.analysis.claims import Claim
from subtune.core.files import hash_files, read_package_yaml
from subtune.exhibits.output import ExperimentResults
from subtune.exhibits.score_tables import AVERAGE

# Tables of the Fisher information of one model on every task.
INFORMATION = (
    "component_shares",
    "parameter_information",
    "layernorm_information",
    "global_layernorm_information",
)
# Columns of the printed tables that every paper has, even if they are empty.
COUNTS = ["model", "method", "printed"]
COLUMNS = {
    "scores":
        ["exhibit", "model", "split", "method", "params", "task", "metric", "value", "scale"],
    "parameter_counts": COUNTS,
}  # fmt: skip


@dataclass(frozen=True)
class Needs:
    """What an experiment's results must have for a table or a figure.

    Attributes:
        methods: methods that were trained.
        seeds: the minimum number of seeds.
        questions: the minimum number of pairs of model and task.
        fractions: whether masks were trained.
        tables: tables of `ExperimentResults` that not every experiment has. If one is
            ``parameter_changes``, the exhibit shows the changes of its only method on its only
            task.
    """

    methods: tuple[str, ...] = ()
    seeds: int = 1
    questions: int = 1
    fractions: bool = False
    tables: tuple[str, ...] = ()

    def are_met(self, results: ExperimentResults) -> bool:
        """Return whether an experiment's results are enough. Runs that diverged count, too."""
        chosen = results["chosen"]
        return (
            {*self.methods} <= {*chosen["method"]}
            and {*self.tables} <= results.tables.keys()
            and self.seeds <= chosen["seed"].nunique()
            and self.questions <= len(chosen[["model", "task"]].drop_duplicates())
            and not (self.fractions and chosen["scope"].isna().all())
        )


@dataclass(frozen=True)
class Table:
    """A table, written as CSV, Markdown and LaTeX.

    Attributes:
        name: the name of its files; ``table2`` is shown as Table 2.
        title: its heading.
        caption: all explanations that a reader needs.
        make: makes it from `ExperimentResults`, as a data frame or a `Styled` table.
        needs: what the table needs of the results; an experiment without it lacks the table.
        tasks: the tasks that the table shows. By default, it shows all tasks; a paper's own table
            leaves out `Paper.tasks_apart`.
    """

    name: str
    title: str
    caption: str
    make: Callable[..., Any]
    needs: Needs = Needs()
    tasks: tuple[str, ...] = ()
    endings: ClassVar[tuple[str, ...]] = ("csv", "md", "tex")


@dataclass(frozen=True)
class Figure(Table):
    """A figure, drawn as PNG and PDF."""

    endings: ClassVar[tuple[str, ...]] = ("png", "pdf")


@dataclass(frozen=True)
class Paper:
    """A paper as a table of contents.

    Attributes:
        name: its name in configurations, and of its folder.
        citation: its name in the report.
        exhibits: its tables and figures, in the paper's order.
        claims: its claims.
        metrics: by task, the metric that the paper shows if it is not the task's first. This metric
            also chooses epochs and learning rates. Recorded predictions and changes still come from
            the epoch that is best by the task's first metric.
        scored_on_training_rows: methods whose runs are also scored on their training rows.
        printed_data: by the name of one of our tables, the paper's table of the same numbers. A
            ``value`` becomes a share of its task's sum.
        printed_learning_rates: by method, the paper's table of its best learning rates.
        tasks_apart: tasks with their own exhibits and claims; the paper's other exhibits and claims
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
        """Return whether the paper shows the Fisher information of an experiment's model."""
        return any({*exhibit.needs.tables} & {*INFORMATION} for exhibit in self.exhibits)

    def claims_on(self, tasks: Collection[str]) -> list[Claim]:
        """Return the claims that an experiment with these tasks tests.

        A claim about some of ``tasks_apart`` needs one of them; every other claim needs another
        task.
        """
        apart, together = set(self.tasks_apart), set(tasks) - set(self.tasks_apart)
        claims = []
        for claim in self.claims:
            own = apart & set(claim.tasks)
            if own & set(tasks) or (together and not own):
                claims.append(claim)
        return claims

    @property
    def folder(self) -> Path:
        """The folder of the paper's printed numbers, with one CSV file per table."""
        return Path(__file__).parent / self.name / "printed"

    def version(self) -> str:
        """Return a hash of the paper's claims and of all numbers that it prints."""
        paths = [*self.folder.glob("*.csv"), *self.folder.parent.glob("claims.yaml")]
        return hash_files(*sorted(paths))

    def printed(self, name: str) -> pd.DataFrame:
        """Return one of the paper's tables, by the name of its file.

        The table ``scores`` has these columns:

        * ``exhibit``, ``model``, ``split``, ``metric``
        * ``method``: the name in `METHODS`, if there is one
        * ``params``: the number of trained parameters, as text
        * ``task``: MNLI is ``mnli_matched`` and ``mnli_mismatched``
        * ``value``: the score, from 0 to 1
        * ``is_average``: whether the score is a mean over the paper's tasks
        """
        path = self.folder / f"{name}.csv"
        if name in COLUMNS and not path.is_file():
            rows = pd.DataFrame(columns=COLUMNS[name])
        else:
            rows = pd.read_csv(path)
        if name != "scores":
            return rows
        return rows.assign(
            value=rows["value"] / rows["scale"],
            # Papers join methods with a plus sign, subtune with a comma.
            method=rows["method"].astype(str).str.replace(" + ", ",", regex=False),
            is_average=rows["metric"] == AVERAGE,
        ).drop(columns="scale")

    def tables_like_ours(self, *, averages: bool) -> dict[str, pd.DataFrame]:
        """Return the paper's numbers in the form of our tables, by the names of our tables.

        Args:
            averages: whether to return averages over tasks instead of scores of single tasks.
        """
        scores = self._scores_like_ours()
        wanted = scores[scores["is_average"] == averages]
        wanted = wanted.drop_duplicates(["split", "model", "method", "column"])
        return {
            "chosen": wanted[wanted["split"] == "validation"],
            "test_scores": wanted[wanted["split"] == "test"],
            "printed": scores,
            **{data: _with_shares(self.printed(name)) for data, name in self.printed_data.items()},
        }

    def _scores_like_ours(self) -> pd.DataFrame:
        """Return the paper's scores in the form of ``chosen``; also ``exhibit`` and ``split``."""
        rows = self.printed("scores").rename(columns={"task": "column"})
        name = rows["column"].str
        rows = rows.assign(
            task=name.split("_").str[0], decides=~name.endswith("_mismatched").astype(bool)
        ).assign(scope=None, fraction=1.0, seed=0)
        keys = ["model", "method"]
        rows = rows.merge(self._trained_parameters(), on=keys, how="left")
        rates = [
            self.printed(name)
            .melt("task", var_name="model", value_name="learning_rate")
            .assign(method=method)
            for method, name in self.printed_learning_rates.items()
        ]
        if not rates:
            return rows
        printed_rates = pd.concat(rates).astype({"learning_rate": float})
        return rows.merge(printed_rates, on=[*keys, "task"], how="left")

    def _trained_parameters(self) -> pd.DataFrame:
        """Return numbers of trained parameters: ``model``, ``method``, ``trainable``.

        If the paper prints no counts, the numbers are shares of the model.
        """
        table = self.printed("parameter_counts")
        table = table[~table["printed"].astype(str).str.endswith("%")]
        if table.empty:
            rows = self.printed("scores").rename(columns={"params": "printed"})
            table = rows[COUNTS].dropna().drop_duplicates(["model", "method"])
        return table.assign(trainable=table["printed"].map(_parse_count)).drop(columns="printed")


def _parse_count(text: str) -> float:
    if text.endswith("%"):
        return float(text[:-1]) / 100
    number = text.replace(",", "")
    return float(number[:-1]) * 1e6 if number.endswith("M") else float(number)


def _with_shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a table with each ``value`` divided by its task's sum, as ``share``.

    Layers with a missing value are left out. A table without values is returned unchanged.
    """
    if "value" not in rows:
        return rows
    known = rows["value"].notna().groupby([rows["task"], rows["layer"]]).transform("all")
    rows = rows[known].rename(columns={"value": "share"})
    return rows.assign(share=rows["share"] / rows.groupby("task")["share"].transform("sum"))


def read_claims(package: str, own: Mapping[str, Any] = MappingProxyType({})) -> tuple[Claim, ...]:
    """Return the claims in a paper's ``claims.yaml``, in their order.

    An entry has the fields of `Claim`. Instead of ``units`` and ``of``, it has a statistic's name
    with a list of its arguments. Statistics are functions of `subtune.analysis.statistics` and of
    the paper.

    Args:
        package: the paper's package.
        own: the names of the module with the paper's statistics.
    """
    every = {**vars(statistics), **own}
    functions = {name: value for name, value in every.items() if inspect.isfunction(value)}
    rows = [dict(row) for row in read_package_yaml(package, "claims.yaml")]
    for row in rows:
        for name in functions.keys() & row:
            row |= {"units": functions[name], "of": row.pop(name)}
        if "order" in row:
            row["order"] = functions[row["order"]]
    return TypeAdapter(tuple[Claim, ...]).validate_python(rows)
