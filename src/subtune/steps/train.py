"""The step `train`: train the runs of one sweep, and write a record of each run.

Records and checkpoints are not outputs of the job, so Snakemake does not delete them. If the job
runs again, it trains only the runs without a record, and continues from their checkpoints.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subtune.core.process import log_line, prepare_device, stop_requests
from subtune.steps.jobs import Job, Paths

if TYPE_CHECKING:
    from subtune.runs.spec import RunSpec
    from subtune.steps.context import Context
    from subtune.training.checkpoints import Checkpoints

    Train = Callable[[Sequence[RunSpec]], None]


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each sweep."""
    plan, layout = context.plan, context.layout
    for key, sweep in plan.sweeps.items():
        inputs = context.training_inputs(sweep)
        inputs["searches"] = [*map(layout.searches, plan.find_search_jobs(key))]
        needed = context.training_resources(sweep, context.estimates.sweep_cost(key))
        spec = {"runs": [run.json_types for run in sweep]}
        yield Job("train", key, spec, inputs, {"sweep": layout.sweep(key)}, needed)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Train the runs of one sweep, and write a record of each run and a list of their ids."""
    from subtune.runs import records
    from subtune.runs.learning_rates import find_learning_rates, parse_planned_runs

    store = Path(job.resources["store"])
    planned = parse_planned_runs(job.spec["runs"], job.inputs["masks"])
    searches = [run.search for run in planned if run.search]
    with open_training_function(job, threads) as train:
        # The searches have ended, so nothing is trained unless a record was removed.
        found = find_learning_rates(searches, store, train)
        runs = [run.with_chosen_rate(found) for run in planned]
        missing = [spec for spec in runs if not records.is_recorded(store, spec.id)]
        log_line(f"{len(runs)} runs: {len(runs) - len(missing)} recorded, {len(missing)} to train")
        if missing:
            # Two masks with the same entries are one run.
            train([*{spec.id: spec for spec in runs}.values()])
    # When `compare` trains a sweep or a search in parts, no list is written.
    if "sweep" in outputs:
        Path(outputs["sweep"]).write_text("\n".join(["run", *(spec.id for spec in runs), ""]))


def make_trainer(
    inputs: Paths,
    store: Path,
    checkpoints: "Checkpoints",
    report: Callable[[str], None],
    threads: int,
    scored_selections: Collection[str] = (),
) -> "Train":
    """Return a function that trains and records runs of one model on one task.

    Args:
        inputs: paths of the model, the token ids, the masks, and the texts of runs that need
            texts. All files are read at the first call to the returned function.
        store: the directory of run records.
        report: is called with a line after each epoch and each record.
        scored_selections: ids of selections whose runs are also scored on their training set.
    """
    from subtune.data.load import read_examples
    from subtune.methods.single_entries import read_entry_arrays, read_mask_names
    from subtune.models.encoder import load_spec_encoder
    from subtune.training.recorded_runs import train_and_record

    read_once: list[Any] = []

    def train(specs: "Sequence[RunSpec]") -> None:
        if not read_once:
            model, device = load_spec_encoder(specs[0], inputs["model"]), prepare_device(threads)
            # A job that only reads texts has not reserved a GPU.
            if not all(spec.reads_texts for spec in specs):
                model = model.to(device)
            masks = dict[str, Any]()
            for path in map(Path, inputs["masks"]):
                masks |= dict.fromkeys(read_mask_names(path).values(), read_entry_arrays(path))
            tokens = read_examples(inputs["tokens"], *inputs["texts"])
            read_once.extend([model, tokens, masks])
        model, tokens, masks = read_once
        scored = [spec.id for spec in specs if spec.selection.id in scored_selections]
        train_and_record(specs, store, model, tokens, masks, report, checkpoints, scored)

    return train


@contextmanager
def open_training_function(job: Job, threads: int) -> "Iterator[Train]":
    """Yield a function that trains and records the runs of a job, until a signal stops training.

    If the block ends without an error, the checkpoints of recorded runs are removed.
    """
    from subtune.training.checkpoints import Checkpoints

    needed = job.resources
    with stop_requests() as stopping:
        seconds = 60 * needed["checkpoint_minutes"]
        checkpoints = Checkpoints(Path(needed["checkpoints"]), seconds, stopping)
        store, scored_selections = Path(needed["store"]), needed["scored_selections"]
        yield make_trainer(job.inputs, store, checkpoints, log_line, threads, scored_selections)
        checkpoints.remove_recorded(store)
