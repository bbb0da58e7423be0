"""Train the runs of a table, and record what a replay needs: seconds, predictions and test scores.

Runs are trained by subtune's own steps, two at a time on one core each. A recorded run is skipped,
so an interrupted command continues where it stopped.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from itertools import chain, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import datasets
import numpy as np

from benchmarks.decisions.measures import MINUTES, ORDERS, list_orders, list_replayed_plans
from benchmarks.decisions.policies import POLICIES
from benchmarks.decisions.recorded import (
    ARRAYS,
    ENDING,
    FOLDER,
    NONE,
    RECORDS,
    WHOLE,
    RecordedRun,
    RecordedTable,
    pack_table,
    read_results,
    read_table,
    with_recommended_rate,
    write_result,
)
from benchmarks.decisions.replay import order_seeds, replay
from benchmarks.decisions.tables import TABLES, Source, write_table
from subtune.comparison import Options, pace
from subtune.comparison.first_configuration import EXPERIMENT, write_first_configuration
from subtune.config.checks import read_config
from subtune.core.process import prepare_device
from subtune.data.load import row_encoder
from subtune.data.sources import make_columns, task_reader
from subtune.methods.roles import is_classifier
from subtune.models.dimensions import read_dimensions
from subtune.models.encoder import load_spec_encoder
from subtune.runs import records
from subtune.runs.learning_rates import best_rate, follow_search
from subtune.runs.spec import PlannedRun, RunSpec
from subtune.share.predict import fit_text_baseline
from subtune.steps import dataset, model, tokens
from subtune.steps.context import Context, plan_and_check
from subtune.steps.jobs import list_files, run_job
from subtune.steps.train import make_trainer
from subtune.tasks.examples import Examples
from subtune.tasks.sentences import TEXT_COLUMNS
from subtune.training.checkpoints import Checkpoints
from subtune.training.evaluation import score_splits
from subtune.training.recorded_runs import predict_logits

# A time limit that no setting exceeds.
NO_LIMIT = 100_000


def record_tables(
    names: Sequence[str], source: Source, folder: Path, seconds: float
) -> Iterator[str]:
    """Record tables, and yield a line for each run and each table.

    The runs with recommended learning rates of all tables are trained first. After the given
    seconds, no run is started.
    """
    end = time.time() + seconds
    for searches, name in product([False, True], names):
        if time.time() > end:
            return
        own = (folder / name).resolve()
        paths = write_table(TABLES[name], source, own / "tables")
        if (RECORDS / f"{name}{ENDING}").exists():
            unpack_table(read_table(RECORDS / f"{name}{ENDING}"), own)
        write_configurations(name, paths, own)
        for line in record_table(own, paths["test"], end, searches):
            yield f"{name}: {line}"
        yield f"{name}: {pack_table(read_recording(own))}"


def unpack_table(table: RecordedTable, folder: Path) -> None:
    """Write the configurations and results of a table to its directory, unless they exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for plan, text in table.configurations.items():
        if not (folder / f"{plan}.yaml").exists():
            (folder / f"{plan}.yaml").write_text(text.replace(FOLDER, str(folder)))
    for run, recorded in table.runs.items():
        target = folder / "runs" / f"{run}.npz"
        if not target.exists():
            write_result(target, recorded)


def write_configurations(name: str, paths: Mapping[str, Path], folder: Path) -> None:
    """Write the configurations that `compare` makes for each time limit, unless they exist.

    The pace is measured once, so that the choices do not differ by chance.
    """
    measured = list[pace.MeasuredPace]()
    measure = pace.measure_paces

    def measure_once(*arguments: Any) -> pace.MeasuredPace:
        if not measured:
            measured.append(measure(*arguments))
        return measured[0]

    options, splits = TABLES[name].options, {"train": paths["train"]}
    splits |= {"validation": paths["dev"]} if "dev" in paths else {}
    for plan, minutes in [(WHOLE, NO_LIMIT), *((f"now-{m}", m) for m in MINUTES)]:
        target = folder / f"{plan}.yaml"
        if not target.exists():
            with patch.object(pace, "measure_paces", measure_once):
                given = Options(**options, minutes=minutes)
                results = str(folder / "results" / plan)
                _ = [*write_first_configuration(splits, given, target, results, None, True)]


def read_plans(
    folder: Path,
) -> tuple[dict[str, Sequence[PlannedRun]], dict[str, dict[int, str]]]:
    """Read the plans of all configurations, and the plan of each policy and time limit."""
    plans: dict[str, Sequence[PlannedRun]] = {}
    settings = defaultdict[str, dict[int, str]](dict)
    for path in [folder / f"{WHOLE}.yaml", *sorted(folder.glob("*-*.yaml"))]:
        planned = open_context(path).plan.experiments[EXPERIMENT]
        keys = [run.key for run in planned]
        same = (name for name, runs in plans.items() if [run.key for run in runs] == keys)
        name = next(same, path.stem)
        plans.setdefault(name, planned)
        policy, _, minutes = path.stem.rpartition("-")
        if policy:
            settings[policy][int(minutes)] = name
    return plans, dict(settings)


def read_recording(folder: Path) -> RecordedTable:
    """Read the plans of a table, and the results so far."""
    plans, settings = read_plans(folder)
    texts = {path.stem: path.read_text("utf-8") for path in folder.glob("*.yaml")}
    texts = {plan: text.replace(str(folder), FOLDER) for plan, text in texts.items()}
    results, size = read_results(folder / "runs"), read_encoder_size(folder)
    return RecordedTable(folder.name, results, plans, settings, size, texts)


def read_encoder_size(folder: Path) -> int:
    """Read the number of parameters of the model of a table's runs."""
    context = open_context(folder / f"{WHOLE}.yaml")
    [location] = context.plan.model_ids.values()
    return read_dimensions(Path(context.layout.model(location))).parameters


@cache
def open_context(configuration: Path) -> Context:
    return plan_and_check(read_config(configuration))


def record_table(folder: Path, test: Path, end: float, searches: bool) -> Iterator[str]:
    """Train the missing runs of a table until the time ``end``, and yield a line for each.

    These are the runs of the plan `WHOLE` with recommended learning rates and, with ``searches``,
    those of its searches, and then the other runs that `list_missing_runs` finds.
    """
    prepare_inputs(open_context(folder / f"{WHOLE}.yaml"))
    while time.time() < end:
        table = read_recording(folder)
        scores = {run: found.about["score"] for run, found in table.runs.items()}
        listed = list_needed_runs(table.plans[WHOLE], scores, searches)
        needed = [(WHOLE, run) for run in listed]
        if searches and not needed:
            needed = list_missing_runs(table)
        if not needed:
            return
        yield from train_runs(folder, needed, test, end)


def train_runs(
    folder: Path, needed: Iterable[tuple[str, PlannedRun]], test: Path, end: float
) -> Iterator[str]:
    """Train runs of plans, two at a time. After the time ``end``, no run is started."""
    for plan in {plan for plan, _ in needed}:
        prepare_inputs(open_context(folder / f"{plan}.yaml"))
    left, running = iter(needed), dict[Future[float], PlannedRun]()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        while True:
            while len(running) < 2 and time.time() < end and (found := next(left, None)):
                plan, run = found
                target = folder / "runs" / f"{run.spec.id}.npz"
                given = folder / f"{plan}.yaml", run.json_types, test, target
                running[pool.submit(train_run, *given)] = run
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                run, seconds = running.pop(future), future.result()
                rate = run.spec.recipe.learning_rate
                yield f"{run.method}  seed {run.seed}  rate {rate}  {seconds:.0f} s"


def list_missing_runs(table: RecordedTable) -> list[tuple[str, PlannedRun]]:
    """List the missing runs at which replays of the former and the present policy end."""
    missing = dict[str, tuple[str, PlannedRun]]()
    for policy in (POLICIES["before"], POLICIES["now"]):
        for plan, planned, minutes in list_replayed_plans(table, policy):
            for order in list_orders(ORDERS):
                found = replay(table, order_seeds(planned, order), policy, minutes)
                missing |= {run.spec.id: (plan, run) for run in found.missing}
    return [*missing.values()]


def list_needed_runs(
    planned: Sequence[PlannedRun], scores: Mapping[str, float], searches: bool
) -> list[PlannedRun]:
    """List missing runs with recommended learning rates and, with ``searches``, other rates."""
    listed = list_recommended_runs(planned)
    listed += list_searched_runs(planned, scores) if searches else []
    # A regression on embeddings has one run for all seeds.
    distinct = {run.spec.id: run for run in listed}
    return [run for run_id, run in distinct.items() if run_id not in scores]


def list_recommended_runs(planned: Iterable[PlannedRun]) -> list[PlannedRun]:
    """List the planned runs with recommended learning rates, seed by seed."""
    positions: dict[tuple, int] = {}
    found = list[tuple[int, PlannedRun]]()
    for run in planned:
        position = positions[run.setting] = positions.get(run.setting, -1) + 1
        found.append((position, with_recommended_rate(run)))
    return [run for _, run in sorted(found, key=lambda pair: pair[0])]


def list_searched_runs(
    planned: Iterable[PlannedRun], scores: Mapping[str, float]
) -> list[PlannedRun]:
    """List the next runs of searches and, after their end, all seeds with the best rate."""
    found = list[PlannedRun]()
    for run in planned:
        if run.search:
            tried, rates = follow_search(run.search, lambda spec: scores.get(spec.id))
            specs = [run.search.run.with_learning_rate(rate) for rate in rates]
            if not rates:
                specs = [run.spec.with_learning_rate(best_rate(run.search, tried))]
            found += [run.replace(spec=spec, search=None) for spec in specs]
    return found


def prepare_inputs(context: Context) -> None:
    """Write the dataset, the model and the token ids of all runs, unless they exist."""
    for job in chain(*(step.jobs(context) for step in (dataset, model, tokens))):
        if not all(Path(path).exists() for path in list_files(job.outputs)):
            run_job(job)


def train_run(configuration: Path, run: Mapping[str, Any], test: Path, target: Path) -> float:
    """Train a run, score it on the test set, and write its result. Return its CPU seconds."""
    os.environ["OMP_NUM_THREADS"] = "1"
    prepare_device(1)
    planned, context = PlannedRun.model_validate(run), open_context(configuration)
    spec, store = planned.spec, Path(context.layout.records())
    train = _open_trainer(configuration, spec.tokens.id, spec.reads_texts)
    start = time.process_time()
    train([spec])
    # Programs on the same cores change the time of the clock, but hardly the CPU time.
    seconds = time.process_time() - start
    arrays, about = read_result(store, spec)
    about |= {"method": planned.method, "seed": planned.seed, "train_rows": planned.train_rows}
    about |= {"seconds": round(seconds, 2), "test": {}}
    if not about["diverged"]:
        about["test"] = score_on_test_set(configuration, spec, test)
    write_result(target, RecordedRun(about, **arrays))
    (store / spec.id / records.DELTA).unlink()
    return seconds


@cache
def _open_trainer(configuration: Path, tokens_id: str, reads_texts: bool) -> Any:
    context = open_context(configuration)
    run = _find_run(context, tokens_id, reads_texts)
    checkpoints = Checkpoints(Path(context.layout.checkpoints()) / str(os.getpid()), 3600)
    store = Path(context.layout.records())
    return make_trainer(context.training_inputs([run]), store, checkpoints, lambda line: None, 1)


def _find_run(context: Context, tokens_id: str, reads_texts: bool = False) -> PlannedRun:
    planned = context.plan.experiments[EXPERIMENT]
    return next(
        run
        for run in planned
        if (run.spec.tokens.id, run.spec.reads_texts) == (tokens_id, reads_texts)
    )


def read_result(store: Path, spec: RunSpec) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read what a replay needs from a record: the arrays and ``about`` of a `RecordedRun`."""
    outcome, history = records.read_outcome(store, spec.id), records.read_epochs(store, spec.id)
    sizes, fold = records.read_sizes(store, spec.id), spec.recipe.fold
    about: dict[str, Any] = {
        "id": spec.id,
        "score": records.read_score(store, spec),
        "learning_rate": spec.recipe.learning_rate,
        "fold": fold.number if fold else None,
        "history": history,
        "classifier": sum(size for name, size in sizes.items() if is_classifier(name)),
        **{name: outcome[name] for name in ("best_epoch", "trainable", "diverged")},
    }
    if outcome["diverged"]:
        return dict.fromkeys(ARRAYS, NONE), about
    best = records.read_recorded_predictions(store, spec.id)
    by_epoch = records.read_predictions_of_epochs(store, spec.id)
    names = [name for name in by_epoch if name.startswith("logit_")]
    logits = np.stack([by_epoch[name] for name in names], -1)
    logits = logits.reshape(int(by_epoch["epoch"].max()), -1, len(names))
    labels, is_multilabel = best["label"], best["label"].dtype == object
    if is_multilabel:
        labels = np.stack([*labels]).astype(bool)
    # Metrics of classes depend on the predicted classes only.
    predictions = logits > 0 if is_multilabel else logits.argmax(-1).astype(np.int8)
    if len(names) == 1:
        # Four bytes would make the recordings twice as large.
        predictions = logits[..., 0].astype(np.float16)
    return {"predictions": predictions, "idx": best["idx"].astype(np.int32), "label": labels}, about


@cache
def _read_test_set(configuration: Path, test: Path, tokens_id: str) -> Any:
    """Read the columns of the test set, and its token ids."""
    context = open_context(configuration)
    spec = _find_run(context, tokens_id).spec
    task = spec.tokens.data.task
    rows = [*task_reader(task).read(task, test, True)]
    columns = make_columns(task, rows, labelled=True, source=str(test))
    given = spec.tokens
    directory = Path(context.layout.model(spec.model.id))
    encode = row_encoder(task, directory, given.max_length, given.doc_stride, given.apart)
    return columns, datasets.Dataset.from_dict(encode(columns, columns["idx"]))


def score_on_test_set(configuration: Path, spec: RunSpec, test: Path) -> dict[str, float]:
    """Score a recorded run on the test set, at its best epoch, in all metrics of its task."""
    context = open_context(configuration)
    columns, split = _read_test_set(configuration, test, spec.tokens.id)
    if spec.reads_texts:
        texts = [columns[name] for name in TEXT_COLUMNS if name in columns]
        examples = Examples(split)
        logits = fit_text_baseline(context.layout, spec).predict_logits(texts)
    else:
        encoder = load_spec_encoder(spec, context.layout.model(spec.model.id))
        examples, logits = predict_logits(Path(context.layout.records()), spec, encoder, split)
    task = spec.tokens.data.task
    return score_splits(task, {"test": examples}, {"test": logits}).scores["test"]
