"""Refits: a cross-validated method is trained on the rows of all folds before its export."""

import math
import sys
from pathlib import Path

import torch

from subtune.analysis.columns import SETTING, find_numbers, read_table
from subtune.core.errors import SubtuneError, one_line
from subtune.core.layout import Layout
from subtune.core.machine import prepare
from subtune.data.load import read_splits
from subtune.methods.single_entries import read_entry_values
from subtune.models.encoder import load_spec_encoder
from subtune.runs import records
from subtune.runs.spec import RunSpec
from subtune.training.checkpoints import Checkpoints
from subtune.training.recording import train_and_record

CHECKPOINT_SECONDS = 600


def run_to_export(layout: Layout, run_id: str) -> str:
    """Return the id of the run to export, which is trained first if it is not recorded.

    A cross-validated run has not seen all rows. In its place, the refit of its method is exported.
    Any other run is exported itself.

    Raises:
        SubtuneError: the run has no chosen learning rate, or training failed.
    """
    store = Path(layout.records())
    if records.read_spec(store, run_id).recipe.fold is None:
        return run_id
    method, spec = refit_of_run(layout, run_id)
    if not records.is_recorded(store, spec.id):
        print(f"training {method} once more, on the rows of all folds", file=sys.stderr)
        with one_line(f"training {method} once more"):
            _train(layout, spec)
    return spec.id


def refit_of_run(layout: Layout, run_id: str) -> tuple[str, RunSpec]:
    """Return a cross-validated run's method, and the method's run on the rows of all folds.

    The refit has the method's first seed and chosen learning rate. It ends after the median of the
    epochs that were best on the folds.

    Raises:
        SubtuneError: the run's learning rate was not chosen, or the method diverged.
    """
    for path in find_numbers(layout.results, "chosen"):
        chosen = read_table(path, "scores")
        for _, runs in chosen[chosen["decides"]].groupby(SETTING, sort=False, dropna=False):
            if run_id in set(runs["run"]):
                method, scored = runs["method"].iloc[0], runs.dropna(subset="value")
                if scored.empty:
                    raise SubtuneError(
                        f"method {method!r} diverged: it has no learning rate to train with"
                    )
                first = records.read_spec(Path(layout.records()), scored["run"].iloc[0])
                return method, first.make_refit(math.ceil(scored["best_epoch"].median()))
    raise SubtuneError(
        f"run {run_id} is cross-validated, but not with its method's chosen learning rate; "
        f"expected a run in data/*/chosen.parquet in {layout.results}"
    )


def _train(layout: Layout, spec: RunSpec) -> None:
    """Train and record a run. After an interrupt, the next call continues from a checkpoint."""
    model = load_spec_encoder(spec, layout.model(spec.model.id)).to(
        prepare(torch.get_num_threads())
    )
    tokens, ranking = read_splits(Path(layout.tokens(spec.tokens.key))), spec.selection.ranking
    rankings = {ranking: read_entry_values(Path(layout.ranking(ranking)))} if ranking else {}
    checkpoints = Checkpoints(Path(layout.checkpoints(f"refit-{spec.id}")), CHECKPOINT_SECONDS)
    train_and_record(
        [spec],
        Path(layout.records()),
        model,
        tokens,
        rankings,
        report=lambda line: None,
        checkpoints=checkpoints,
    )
    checkpoints.clear()
