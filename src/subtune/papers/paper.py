"""Declarations of papers: tables, figures, claims and printed numbers."""

import csv
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from pydantic import TypeAdapter

from subtune.analysis.claims import Claim
from subtune.analysis.statistics import STATISTICS, match_family
from subtune.core.errors import (
    SubtuneError,
    convert_errors,
    error_reason,
    explain_pydantic_errors,
    format_allowed,
    format_missing_column,
    join_names,
)
from subtune.core.files import hash_files, read_package_text, read_package_yaml
from subtune.exhibits.answer_tables import ANSWERS, SUMMARY
from subtune.exhibits.failure_exhibits import (
    CLASSES,
    CONFUSION,
    MORE_LABELS,
    PREDICTED,
    SUSPECTS,
)
from subtune.exhibits.figures import LEARNING_CURVES, REPRODUCTION, SPLITS, TRAINING_SIZES
from subtune.exhibits.finding_tables import CHOICES, CLAIMS, PAIRED_TESTS
from subtune.exhibits.forest_plot import FRONT
from subtune.exhibits.output import ExperimentResults, Table
from subtune.exhibits.score_tables import AVERAGE, SCORES, SCORES_BY_SIZE
from subtune.papers.choices import LEFT_OPEN, Choice, read_choices
from subtune.tasks import TASKS
from subtune.tasks.sentences import parse_number
from subtune.tasks.task import list_score_columns

# Tables and figures that are also made for all experiments together.
SUMMARIES = (ANSWERS, FRONT, SUMMARY)
# Tables with the Fisher information of one model on each task.
INFORMATION = (
    "component_shares",
    "parameter_information",
    "layernorm_information",
    "global_layernorm_information",
)
# Printed tables that a paper may lack. A missing table is read as an empty table with these
# columns.
COUNTS = ["model", "method", "printed"]
PRINTED_COLUMNS = {
    "scores":
        ["exhibit", "model", "split", "method", "params", "task", "metric", "value", "scale"],
    "parameter_counts": COUNTS,
}  # fmt: skip

# Maps each score column of the built-in tasks to its task, and to whether it decides.
_KNOWN_COLUMNS = {c.key: (c.task, c.decides) for c in list_score_columns([*TASKS.values()], {})}


@dataclass(frozen=True)
class Paper:
    """A paper: the tables and figures to reproduce, and its claims.

    These use the score columns and methods that have printed scores, and also ``tasks_apart`` and
    ``more_methods``. If the paper has no printed scores, they use all columns and methods.

    Attributes:
        name: the name of the paper in configurations, which `find_paper` sets.
        citation: the name that is shown in the report.
        exhibits: the tables and figures, in the order of the paper.
        metrics: maps a task to the metric that the paper uses, if it is not the task's first
            metric. Epochs and learning rates are chosen by this metric, but predictions and changes
            are recorded at the best epoch by the task's first metric.
        scored_on_training_set: methods whose runs are also scored on their training set.
        printed_data: maps the name of a reproduced table to the paper's table with the
            corresponding numbers. A column ``value`` is divided by its sum over the task.
        printed_learning_rates: a method, and the paper's table of the method's learning rates.
        tasks_apart: tasks that are used only in separate tables, figures and claims.
        more_methods: a regular expression for the methods in claims whose scores are not printed,
            for example because they are for models of another size.
        package: the directory of the paper's package, which `find_paper` sets.
    """

    name: str
    citation: str
    exhibits: Sequence[Table] = ()
    claims: Sequence[Claim] = ()
    metrics: Mapping[str, str] = field(default_factory=dict)
    scored_on_training_set: tuple[str, ...] = ()
    printed_data: Mapping[str, str] = field(default_factory=dict)
    printed_learning_rates: tuple[str, str] | None = None
    tasks_apart: tuple[str, ...] = ()
    more_methods: str = ""
    package: Path = Path(__file__).parent

    def all_exhibits(self) -> list[Table]:
        """Return all tables and figures of the paper's experiments, in the order of the report."""
        last = [PAIRED_TESTS, CHOICES, LEARNING_CURVES, TRAINING_SIZES, SCORES_BY_SIZE]
        if not self.name:
            failures = [CLASSES, CONFUSION, SUSPECTS, PREDICTED, MORE_LABELS]
            return [ANSWERS, FRONT, *failures, SUMMARY, SCORES, *last]
        return [*self.exhibits, CLAIMS, REPRODUCTION, LEFT_OPEN, *SUMMARIES, *last]

    def exhibits_with_data(
        self, results: ExperimentResults
    ) -> Iterator[tuple[Table, ExperimentResults]]:
        """Yield each table or figure whose needs are met, and the results to show."""
        for exhibit in self.all_exhibits():
            columns, is_of_paper = list[str](), exhibit in self.exhibits
            for task, about in results.tasks.items():
                if exhibit.tasks and task not in exhibit.tasks:
                    continue
                if is_of_paper and not exhibit.tasks and task in self.tasks_apart:
                    continue
                own = [c for c in about["columns"] if c in self.evaluated.get("column", ())]
                # A task that the paper does not have is shown with all of its dev sets.
                columns += (own if is_of_paper else []) or [*about["columns"]]
            if columns and exhibit.needs.are_met(results):
                yield exhibit, results.select_columns(columns)

    def shows_information(self) -> bool:
        return any({*exhibit.needs.tables} & {*INFORMATION} for exhibit in self.exhibits)

    def claims_for_tasks(self, tasks: Collection[str]) -> list[Claim]:
        """Return the claims that can be tested on the given tasks.

        A claim about ``tasks_apart`` needs one of its tasks. Any other claim needs a task of the
        paper that is not in ``tasks_apart``.
        """
        tasks = {*tasks} & {*self.evaluated.get("task", tasks)}
        apart, together = set(self.tasks_apart), tasks - set(self.tasks_apart)
        claims = []
        for claim in self.claims:
            own = apart & set(claim.tasks)
            if own & tasks or (together and not own):
                claims.append(claim)
        return claims

    @cached_property
    def evaluated(self) -> dict[str, list[str]]:
        """The tasks, score columns and methods of the paper, if it prints scores."""
        scores = self.scores[~self.scores["is_average"].astype(bool)]
        own = {
            "task": [*scores["task"], *self.tasks_apart],
            "column": [*scores["column"], *self.tasks_apart],
            "method": [*self.scores["method"]],
        }
        return own if len(self.scores) else {}

    def select_evaluated(self, table: pd.DataFrame) -> pd.DataFrame:
        """Select the rows with a task, a score column and a method of the paper."""
        for name in self.evaluated.keys() & {*table}:
            own = self.evaluated[name]
            if name == "method":
                own = own + match_family(table[name].unique(), self.more_methods)
            table = table[table[name].isin(own)]
        return table

    @property
    def is_built_in(self) -> bool:
        return self.package.is_relative_to(Path(__file__).parent)

    @property
    def folder(self) -> Path:
        """The directory of the paper's printed numbers, with one CSV file per table."""
        return self.package / "printed"

    def files_hash(self) -> str:
        """Return a hash of the claims, the printed numbers and, if not built in, the code."""
        paths = [*self.folder.glob("*.csv"), *self.package.glob("claims.yaml")]
        if not self.is_built_in:
            paths += self.package.glob("**/*.py")
        return hash_files(*sorted(paths))

    def read_choices(self) -> dict[str, Choice]:
        """Read what the paper left open, and what differs in subtune, from ``choices.yaml``."""
        path = self.package / "choices.yaml"
        return read_choices(path) if path.is_file() else {}

    def read_printed(self, name: str) -> pd.DataFrame:
        """Read the paper's table in the CSV file ``name``.

        In the table ``scores``, ``method`` is a name in `METHODS`, if listed; ``task`` has both
        ``mnli_matched`` and ``mnli_mismatched``; ``value`` is a number from 0 to 1; ``as_printed``
        is the score in the paper's unit, in which ``scale`` is a perfect score; and ``params`` is
        a string.
        """
        path = self.folder / f"{name}.csv"
        if name in PRINTED_COLUMNS and not path.is_file():
            rows = pd.DataFrame(columns=PRINTED_COLUMNS[name])
        else:
            rows = pd.read_csv(path, dtype=str if name in PRINTED_COLUMNS else None)
        if name != "scores":
            return rows
        scale = pd.to_numeric(rows["scale"])
        return rows.assign(
            as_printed=rows["value"],
            scale=scale,
            value=pd.to_numeric(rows["value"]) / scale,
            # Combined methods are written with a plus sign in papers, and with a comma in subtune.
            method=rows["method"].astype(str).str.replace(" + ", ",", regex=False),
            is_average=rows["metric"] == AVERAGE,
        )

    def check_scores(self) -> None:
        """Raise a `SubtuneError` for a mistake in the printed scores, which names its line."""
        seen = set[tuple[str, ...]]()
        for place, row in self._list_printed_rows("scores"):
            value, scale = (parse_number(row[name] or "") for name in ("value", "scale"))
            if row["split"] not in SPLITS:
                raise SubtuneError(f"{place}: split: {format_allowed(row['split'], SPLITS)}")
            score = tuple(row[name] for name in ("exhibit", "model", "split", "method", "task"))
            if value is None or scale is None or abs(value) > scale:
                raise SubtuneError(
                    f"{place}: value: found {row['value']!r}, expected a number up to the scale"
                )
            if score in seen:
                raise SubtuneError(
                    f"{place}: this score repeats an earlier line, expected each score once"
                )
            seen.add(score)
            with convert_errors(f"{place}: params"):
                _parse_count(row["params"] or "0")

    def check_counts(self) -> None:
        """Raise a `SubtuneError` for a mistake in the printed numbers of parameters."""
        for place, row in self._list_printed_rows("parameter_counts"):
            for column in ("printed", "classifier"):
                with convert_errors(f"{place}: {column}"):
                    _parse_count(row.get(column) or "0")

    def _list_printed_rows(self, name: str) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the rows of a printed table with their places. It needs the `PRINTED_COLUMNS`."""
        path = self.folder / f"{name}.csv"
        if path.is_file():
            with path.open(newline="", encoding="utf-8") as file:
                rows = csv.DictReader(file)
                header = rows.fieldnames or ()
                for column in [name for name in PRINTED_COLUMNS[name] if name not in header]:
                    raise SubtuneError(f"{path}: {format_missing_column(column, header)}")
                yield from ((f"{path}, line {rows.line_num}", row) for row in rows)

    def printed_tables(self, *, averages: bool) -> dict[str, pd.DataFrame]:
        """Map reproduced tables to the paper's scores, or ``averages``, in the same format."""
        wanted = self.scores[self.scores["is_average"] == averages]
        wanted = wanted.drop_duplicates(["split", "model", "method", "column"])
        data = {table: self.read_printed(name) for table, name in self.printed_data.items()}
        return {
            "chosen": wanted[wanted["split"] == "validation"],
            "test_scores": wanted[wanted["split"] == "test"],
            "printed": self.scores,
            **{name: _with_shares(table) for name, table in data.items()},
        }

    def list_printed_tasks(self) -> set[str]:
        """List the tasks with printed scores. Unlike `evaluated`, this does not need pandas."""
        rows = (row for _, row in self._list_printed_rows("scores") if row["metric"] != AVERAGE)
        return {_KNOWN_COLUMNS.get(row["task"], (row["task"],))[0] for row in rows}

    @cached_property
    def scores(self) -> pd.DataFrame:
        """The paper's scores in the format of ``chosen``, with ``exhibit`` and ``split``."""
        rows = self.read_printed("scores").rename(columns={"task": "column"})
        facts = [_KNOWN_COLUMNS.get(key, (key, True)) for key in rows["column"]]
        rows[["task", "decides"]] = pd.DataFrame(facts, rows.index, ["task", "decides"])
        rows = rows.assign(scope=None, fraction=1.0, seed=0)
        keys = ["model", "method"]
        rows = rows.merge(self._trained_parameters(), on=keys, how="left")
        if self.printed_learning_rates:
            method, name = self.printed_learning_rates
            printed = self.read_printed(name)
            rates = printed.melt("task", var_name="model", value_name="learning_rate")
            rates = rates.assign(method=method).astype({"learning_rate": float})
            rows = rows.merge(rates, on=[*keys, "task"], how="left")
        return rows

    def _trained_parameters(self) -> pd.DataFrame:
        """Return the number of trained parameters, ``trainable``, of each ``model`` and ``method``.

        Printed percentages become fractions of the model. Some papers count a ``classifier``, too.
        """
        table = self.read_printed("parameter_counts").dropna(subset=["printed"])
        table = table[~table["printed"].str.endswith("%").astype(bool)]
        if table.empty:
            rows = self.read_printed("scores").rename(columns={"params": "printed"})
            table = rows[COUNTS].dropna().drop_duplicates(["model", "method"])
        classifier = table["classifier"] if "classifier" in table else pd.Series("0", table.index)
        counts = {
            "trainable": table["printed"].map(_parse_count),
            "classifier": classifier.fillna("0").map(_parse_count),
        }
        return table.assign(**counts).drop(columns="printed")


def _parse_count(text: str) -> float:
    if text.endswith("%"):
        return float(text[:-1]) / 100
    number = text.replace(",", "")
    return float(number[:-1]) * 1e6 if number.endswith("M") else float(number)


def _with_shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Replace ``value``, if any, by its ``share`` of the task, and drop incomplete layers."""
    if "value" not in rows:
        return rows
    known = rows["value"].notna().groupby([rows["task"], rows["layer"]]).transform("all")
    rows = rows[known].rename(columns={"value": "share"})
    return rows.assign(share=rows["share"] / rows.groupby("task")["share"].transform("sum"))


def read_claims(package: str, *own: Callable[..., pd.Series]) -> tuple[Claim, ...]:
    """Read the claims of a paper from ``claims.yaml``.

    Each entry lists the fields of a `Claim`, which `subtune.analysis.claims` evaluates. Instead of
    ``units`` and ``of``, it contains the name of a statistic (one of the paper's ``own``, or of
    `subtune.analysis.statistics.STATISTICS`) and a list of arguments. A mistake raises a
    `SubtuneError`, which names the file and the line.
    """
    statistics: list[Callable[..., pd.Series]] = [*STATISTICS, *own]
    functions = {function.__name__: function for function in statistics}
    path = Path(str(resources.files(package)), "claims.yaml")
    place = f"{path}, line"
    try:
        entries = read_package_yaml(package, "claims.yaml")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else "unknown"
        raise SubtuneError(f"{place} {line}: not valid YAML: {error.problem}") from None
    except (OSError, ValueError) as error:
        raise SubtuneError(f"{path}: {error_reason(error)}") from None
    if not isinstance(entries, list):
        raise SubtuneError(f"{place} 1: found {type(entries).__name__}, expected a list of entries")
    claims = dict[str, Claim]()
    for number, entry in enumerate(entries):
        try:
            with explain_pydantic_errors(""):
                claim = _read_claim(entry, functions)
            if claim.text in claims:
                raise SubtuneError("this claim repeats an earlier line, expected each claim once")
        except (SubtuneError, TypeError, ValueError) as error:
            node: Any = yaml.compose(read_package_text(package, "claims.yaml"))
            line = node.value[number].start_mark.line + 1
            raise SubtuneError(f"{place} {line}: {error}") from None
        claims[claim.text] = claim
    return tuple(claims.values())


def _read_claim(entry: Any, functions: Mapping[str, Callable[..., pd.Series]]) -> Claim:
    row = dict(entry)
    fields = [name for name in Claim.__dataclass_fields__ if name not in ("units", "of")]
    known = [*functions, *fields]
    for key in [key for key in row if key not in known]:
        raise SubtuneError(format_allowed(key, known))
    names = [name for name in functions if name in row]
    if len(names) != 1:
        choices = join_names(functions)
        raise SubtuneError(f"found {len(names)} statistics, expected one of {choices}")
    [name] = names
    function, given = functions[name], row.pop(name)
    if not isinstance(given, list):
        raise SubtuneError(f"{name}: found {given!r}, expected a list of arguments")
    claim = TypeAdapter(Claim).validate_python(row | {"units": function, "of": given})
    try:
        arguments = inspect.signature(function).bind(*claim.reads, *claim.of).arguments
    except TypeError as error:
        has = f"its arguments are {join_names(inspect.signature(function).parameters)}"
        first = f"of which `reads` gives the first {len(claim.reads)}"
        raise SubtuneError(f"{name}: {error}; {has}, {first}") from None
    if "second" in arguments and arguments.get("first") == arguments["second"]:
        family = arguments["second"]
        raise SubtuneError(f"{name}: found {family!r} twice, expected two families of methods")
    return claim
