"""Recorded tables: the results of all runs, and the answers that follow from some of them.

The file of a table contains the plans of its settings, and of each run the predictions on the dev
examples after each epoch, the scores on the test set, and the seconds of training on one core.
"""

import io
import itertools
import json
import lzma
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis.answer import Answer, build_answer
from subtune.analysis.chosen_runs import curve_verdict
from subtune.analysis.judged_epochs import (
    choose_part_epochs,
    combine_epochs_by_part,
    make_masked_metric,
)
from subtune.analysis.run_scores import build_pseudo_value_row
from subtune.config.schema import MARGIN
from subtune.methods import FULL, method_title
from subtune.runs.learning_rates import middle_rate
from subtune.runs.spec import PlannedRun
from subtune.tasks import TaskSpec

RECORDS = Path(__file__).parent / "records"
ENDING = ".npz.xz"
# The plan with all rows, methods, seeds and searches.
WHOLE = "whole"
FOLDER = "FOLDER-OF-THE-TABLE"
# The arrays of a run. They are empty if the run diverged.
ARRAYS = ("predictions", "idx", "label")
NONE = np.zeros((0, 0))


class RecordedRun(NamedTuple):
    """A recorded run.

    Attributes:
        about: the other values: learning curve, scores on the test set, seconds, sizes.
        predictions: the predicted classes ``[epochs, examples]``, numbers, or labels ``[epochs,
            examples, labels]``.
        idx: the indices of the examples.
        label: their labels.
    """

    about: Mapping[str, Any]
    predictions: np.ndarray
    idx: np.ndarray
    label: np.ndarray


@dataclass
class RecordedTable:
    """The recorded runs of a table, by id, and the plans of its settings, by name.

    Attributes:
        settings: maps a policy and a number of minutes to the name of the plan of `compare`.
        encoder_size: the number of parameters of the encoder.
        configurations: maps names of configurations to their texts, in which `FOLDER` is the
            table's directory.
    """

    name: str
    runs: Mapping[str, RecordedRun]
    plans: Mapping[str, Sequence[PlannedRun]]
    settings: Mapping[str, Mapping[int, str]]
    encoder_size: int
    configurations: Mapping[str, str] = field(default_factory=dict)
    _scores: dict[tuple[str, int | None], tuple[float, int, np.ndarray]] = field(
        default_factory=dict
    )
    _answers: dict[tuple[str, frozenset], Answer] = field(default_factory=dict)

    @cached_property
    def task(self) -> TaskSpec:
        return next(iter(self.plans.values()))[0].spec.tokens.data.task

    @cached_property
    def metric(self) -> str:
        return self.task.metrics[0]

    @cached_property
    def recommended_runs(self) -> set[str]:
        """The ids of the planned runs with the learning rates with which methods train first."""
        planned = itertools.chain.from_iterable(self.plans.values())
        return {with_recommended_rate(run).spec.id for run in planned}

    @cached_property
    def recorded_rates(self) -> dict[str, set[float | None]]:
        """Map each method to the learning rates of its recorded runs."""
        rates = defaultdict[str, set[float | None]](set)
        for run in self.runs.values():
            rates[run.about["method"]].add(run.about["learning_rate"])
        return rates

    def read_curve(self, run: str) -> list[float]:
        column = f"{self.task.evaluation[0]}/{self.metric}"
        return [epoch[column] for epoch in self.runs[run].about["history"]]

    def find_answer(self, joined: Iterable[Mapping[str, Any]], planned: Collection[str]) -> Answer:
        """Find the answer from the rows of `subtune.runs.learning_rates.join_recorded_runs`.

        ``planned`` names all methods of the plan.

        The answer is that of `subtune.steps.scores.collect_run_scores` and
        `subtune.analysis.answer.find_answers`, without reading records.
        """
        joined = [*joined]
        largest = max(row["train_rows"] for row in joined)
        joined = [row for row in joined if row["train_rows"] == largest]
        every = dict.fromkeys(run.method for run in self.plans[WHOLE])
        left_out = ", ".join(method_title(method) for method in every if method not in planned)
        key = left_out, frozenset((row["method"], row["seed"], row["run"]) for row in joined)
        if key not in self._answers:
            question = joined[0]["model"], self.task.name, self.metric
            rows = self._tabulate(joined).assign(left_out=left_out)
            self._answers[key] = build_answer(question, rows)
        return self._answers[key]

    def _tabulate(self, joined: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
        """Build the rows of `subtune.analysis.candidates.select_scored_runs`."""
        by_method = defaultdict[str, list[Mapping[str, Any]]](list)
        for row in joined:
            by_method[row["method"]].append(row)
        rows = []
        for method, own in by_method.items():
            curves = [self.read_curve(row["run"]) for row in own]
            folds = [row["fold"] for row in own]
            for row in own:
                about, epoch = self.runs[row["run"]].about, None
                if len({*folds}) > 1:
                    others = [
                        curve
                        for curve, fold in zip(curves, folds, strict=True)
                        if fold != row["fold"]
                    ]
                    epoch = 1 + int(np.mean(others, axis=0).argmax())
                value, number, parts = self._score(row["run"], epoch)
                encoder_size = 0 if method == "tf-idf" else self.encoder_size
                trained = about["trainable"] - about["classifier"] if encoder_size else 0
                rows.append(
                    {name: row[name] for name in ("model", "task", "method", "seed", "fold")}
                    | {name: row[name] for name in ("train_rows", "planned", "run")}
                    | {"models": row["model"], "metric": self.metric, "margin": MARGIN}
                    | {"fraction": 1.0, "scope": None, "title": method_title(method)}
                    | {"encoder_size": encoder_size, "trained": trained}
                    | {"is_full": method == FULL, "decides": True, "judges": True}
                    | {"value": value, "rows": number, "rows_hash": "", "parts": parts}
                    | {"one_answer": False, "curve": curve_verdict(curves, number)}
                )
        return pd.DataFrame(rows).astype({"fold": float})

    def _score(self, run: str, epoch: int | None) -> tuple[float, int, np.ndarray]:
        """Return a run's score, the number of examples, and the pseudo-values.

        Without an ``epoch``, each part of the examples is scored at its own epoch.
        """
        if (run, epoch) not in self._scores:
            tables = self._build_prediction_tables(run)
            epochs = [epoch] if epoch else choose_part_epochs(self.task, self.metric, tables)
            predicted = combine_epochs_by_part(tables, epochs)
            score = make_masked_metric(self.task, self.metric, predicted)
            [[_, rows, _, *parts]] = build_pseudo_value_row(run, score, predicted)
            self._scores[run, epoch] = score(), rows, np.array(parts)
        return self._scores[run, epoch]

    def _build_prediction_tables(self, run: str) -> dict[int, pd.DataFrame]:
        """Build tables of logits with the recorded predictions, by epoch."""
        recorded, tables = self.runs[run], {}
        label: Any = recorded.label
        if label.ndim == 2:
            label = pd.Series([*label.astype(int)], dtype=object)
        for epoch, predicted in enumerate(recorded.predictions, 1):
            logits = predicted[:, None].astype(float)
            if predicted.ndim == 2:
                logits = 2.0 * predicted - 1
            elif self.task.labels:
                logits = (logits == np.arange(len(self.task.labels))).astype(float)
            columns = {f"logit_{number}": values for number, values in enumerate(logits.T)}
            tables[epoch] = pd.DataFrame({"idx": recorded.idx, "label": label, **columns})
        return tables


def with_recommended_rate(run: PlannedRun) -> PlannedRun:
    """Return a planned run with the middle learning rate of its search, if it has one."""
    if not run.search:
        return run
    return run.replace(search=None, spec=run.spec.with_learning_rate(middle_rate(run.search)))


def read_results(folder: Path) -> dict[str, RecordedRun]:
    """Read the results of single runs, which `benchmarks.decisions.record` wrote, by id."""
    found = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as loaded:
            about = json.loads(str(loaded["about"]))
            found[about["id"]] = RecordedRun(about, *(loaded.get(name, NONE) for name in ARRAYS))
    return found


def write_result(target: Path, run: RecordedRun) -> None:
    """Write the result of a single run. The file is complete or does not exist."""
    arrays: dict[str, Any] = {name: getattr(run, name) for name in ARRAYS}
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(".draft")
    with draft.open("wb") as file:
        np.savez(file, about=np.array(json.dumps(run.about)), **arrays)
    draft.rename(target)


def pack_table(table: RecordedTable) -> Path:
    """Write the file of a table, and return its path."""
    arrays: dict[str, Any] = {
        f"{run}/{name}": getattr(recorded, name)
        for run, recorded in sorted(table.runs.items())
        for name in ARRAYS
    }
    described = {
        "plans": {plan: [run.json_types for run in runs] for plan, runs in table.plans.items()},
        "settings": table.settings,
        "encoder_size": table.encoder_size,
        "configurations": table.configurations,
        "runs": {run: recorded.about for run, recorded in sorted(table.runs.items())},
    }
    stream = io.BytesIO()
    np.savez(stream, about=np.array(json.dumps(described)), **arrays)
    RECORDS.mkdir(exist_ok=True)
    target = RECORDS / f"{table.name}{ENDING}"
    # The arrays of different runs are alike, so one compressed stream is smallest.
    target.write_bytes(lzma.compress(stream.getvalue(), preset=9))
    return target


def read_table(path: Path) -> RecordedTable:
    """Read the file of a table."""
    with np.load(io.BytesIO(lzma.decompress(path.read_bytes())), allow_pickle=False) as loaded:
        about = json.loads(str(loaded["about"]))
        runs = {
            run: RecordedRun(values, *(loaded[f"{run}/{name}"] for name in ARRAYS))
            for run, values in about["runs"].items()
        }
    plans = {
        plan: [PlannedRun.model_validate(run) for run in planned]
        for plan, planned in about["plans"].items()
    }
    # The keys of JSON objects are strings.
    settings = {
        policy: {int(minutes): plan for minutes, plan in by_minutes.items()}
        for policy, by_minutes in about["settings"].items()
    }
    name, size = path.name.removesuffix(ENDING), about["encoder_size"]
    return RecordedTable(name, runs, plans, settings, size, about["configurations"])
