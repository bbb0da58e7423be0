"""Does jobs, one function per kind. Each function imports only what its kind needs."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subtune.core.files import drafts
from subtune.core.jobs import report, stop_requests
from subtune.core.machine import prepare
from subtune.steps.job import Job
from subtune.steps.plan_file import require_current

if TYPE_CHECKING:
    from subtune.models.encoder import Encoder
    from subtune.runs.spec import FisherSpec, RunSpec


def run_job(job: Job, threads: int = 1) -> None:
    """Do a job in this process, and write its outputs.

    Outputs are written under temporary names and then renamed, so an output is whole or absent.
    Lines about the work go to `subtune.core.jobs.report`; `subtune.core.jobs.job_log` sends them to
    a log. While a job trains, `subtune.core.jobs.SIGNALS` ask it to stop: it writes a checkpoint,
    from which the job continues the next time.

    Args:
        threads: the number of threads of a job that computes.

    Raises:
        StoppedError: training was asked to stop.
        SubtuneError: an input cannot be used, an output cannot be written, or a later call has
            planned the job with other settings.
    """
    with drafts(job.outputs) as outputs:
        KINDS[job.step](job, outputs, threads)
        require_current(job)


def _dataset(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Read the rows of one task, and write all its splits as Arrow."""
    from subtune.data import sources
    from subtune.data.load import load_rows
    from subtune.runs.spec import DataSpec

    spec = DataSpec.model_validate(job.spec)
    place = [job.resources[name] for name in ("glue_dir", "files", "directory")]
    rows = load_rows(spec, *place)
    sources.require_unchanged_files(
        spec, sources.find_files(spec.task, spec.source, spec.splits, *place)
    )
    report(", ".join(f"{split}: {len(rows[split])} rows" for split in rows))
    rows.save_to_disk(outputs["rows"])


def _model(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Put one pretrained model's files into a folder that loads without a network."""
    from subtune.models.files import fetch_model
    from subtune.runs.spec import ModelSpec

    spec = ModelSpec.model_validate(job.spec)
    fetch_model(spec, job.resources["place"], Path(outputs["model"]))


def _tokens(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write the token ids of one task as an Arrow folder of splits."""
    from subtune.data.load import read_splits, tokenize
    from subtune.runs.spec import TokensSpec

    spec = TokensSpec.model_validate(job.spec)
    rows, model = Path(_one(job, "rows")), Path(_one(job, "model"))
    settings = spec.max_length, spec.doc_stride, spec.apart
    tokens = tokenize(spec.data.task, read_splits(rows), model, *settings)
    tokens.save_to_disk(outputs["tokens"])


def _fisher(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write Fisher information of one task: of vectors' entries, and sums of tensors."""
    import safetensors.numpy

    from subtune.data.load import read_splits
    from subtune.runs.spec import FisherSpec
    from subtune.training import fisher

    spec = FisherSpec.model_validate(job.spec)
    task = spec.tokens.data.task
    model = _loaded(job, spec, threads)
    tokens = read_splits(Path(_one(job, "tokens")))["train"]
    in_full = spec.in_full.names(model.shapes) if spec.in_full else []
    information = fisher.fisher_information(
        model, tokens, task, spec.rows, spec.seed, in_full=in_full, labels=spec.labels
    )
    safetensors.numpy.save_file(information.entries, outputs["entries"])
    information.sums.to_csv(outputs["sums"], index=False)
    report(f"{task.name}: Fisher information over {spec.rows or len(tokens)} rows")


def _ranking(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Rank entries by Fisher information, and write each entry's rank.

    The first ⌈f·n⌉ of a ranking are the mask of fraction f.
    """
    import safetensors.numpy

    from subtune.methods.single_entries import rank_files
    from subtune.runs.spec import RankingSpec

    of = RankingSpec.model_validate(job.spec).of
    ranks = rank_files(of, [Path(path) for path in job.inputs["fishers"]])
    safetensors.numpy.save_file(ranks, outputs["ranking"])


def _search(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Search for learning rates, and write each with every rate that was tried."""
    from subtune.runs.search import search
    from subtune.runs.spec import SearchSpec

    specs = map(SearchSpec.model_validate, job.spec["searches"])
    with _training(job, threads) as train:
        found = search(specs, Path(job.resources["store"]), train)
        for id, outcome in found.items():
            report(f"search {id} found learning rate {outcome['learning_rate']:g}")
        text = json.dumps(found, indent=2)
        Path(outputs["searches"]).write_text(f"{text}\n", encoding="utf-8")


def _train(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Train the runs of one sweep, and write a record of each and a table of them.

    Records and checkpoints are no outputs, so an interrupted job keeps them.
    """
    import pandas as pd

    from subtune.runs import records
    from subtune.runs.search import read_searches
    from subtune.runs.spec import PlannedRun

    store = Path(job.resources["store"])
    found = read_searches(map(Path, job.inputs["searches"]))
    rates = {search: outcome["learning_rate"] for search, outcome in found.items()}
    planned = [PlannedRun.model_validate(run) for run in job.spec["runs"]]
    runs = {run.key: run.with_found_rate(rates) for run in planned}
    missing = [spec for spec in runs.values() if not records.is_recorded(store, spec.id)]
    report(f"{len(runs)} runs: {len(runs) - len(missing)} on record, {len(missing)} to train")
    with _training(job, threads) as train:
        if missing:
            train([*runs.values()])
    # `compare` trains a sweep or search in parts, which have no table.
    if "sweep" in outputs:
        rows = [
            {"key": key, "run": spec.id} | records.read_outcome(store, spec.id)
            for key, spec in runs.items()
        ]
        pd.json_normalize(rows).to_csv(outputs["sweep"], index=False)


def _scores(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write the numbers of an experiment's runs.

    Scores of all runs; scores at the best learning rates, on the most training rows and on every
    number of rows; scores of parts of the dev rows; learning curves; and changes of parameters. The
    job fails if a chosen run's recorded predictions do not give its recorded score.
    """
    from subtune.analysis import curves, parameters, scores
    from subtune.analysis.predictions import require_scores_of_predictions, row_scores
    from subtune.analysis.runs import join_run_ids
    from subtune.tasks.task import ScoreColumn

    asked, store = job.spec, Path(job.resources["store"])
    columns = [ScoreColumn(**column) for column in asked["columns"]]
    planned = join_run_ids(asked["runs"], *_finished(job))
    every = scores.collect(planned, store, columns, not asked["paper"])
    best = scores.choose(every)
    require_scores_of_predictions(best["run"], store)
    chosen = curves.with_verdicts(scores.on_most_rows(best), store, columns)
    chosen = chosen.assign(margin=asked["margin"])
    drawn = {(figure["method"], figure["task"]) for figure in asked["drawn"]}
    tables = {
        "all": every,
        "chosen": chosen,
        "row_scores": row_scores(chosen, store, columns),
        "sizes": scores.in_every_metric(best, store, columns),
        "learning_curves": curves.learning_curves(every, store),
        "changes": parameters.component_changes(chosen, store),
        "parameter_changes": parameters.mean_abs_changes(chosen, drawn, store),
    }
    for name, table in tables.items():
        table.to_csv(outputs[name], index=False)


def _exhibits(job: Job, outputs: dict[str, list[str]], threads: int) -> None:
    """Make an experiment's tables and figures, and their data.

    One job makes all, because most of the time is the start of Python and its libraries.
    """
    from subtune.papers.experiments import read_results, write_exhibit

    about = job.spec
    results = read_results(about, job.inputs, Path(job.resources["store"]))
    for name, path in zip(about["tables"], outputs["numbers"], strict=True):
        results[name].to_csv(path, index=False)
    for name in about["exhibits"]:
        write_exhibit(name, about, results, outputs[name])


def _summary(job: Job, outputs: dict[str, list[str]], threads: int) -> None:
    """Make the answers, a table and a figure of all experiments together."""
    from subtune.analysis.predictions import read_row_scores
    from subtune.analysis.scores import read_scores
    from subtune.analysis.summary import merged_experiments
    from subtune.exhibits.answer_tables import answers_table, summary_table
    from subtune.exhibits.figures import draw_front
    from subtune.exhibits.output import ExperimentResults, save_figure, write_table
    from subtune.papers import NO_PAPER

    tables = {
        "chosen": merged_experiments([read_scores(path) for path in job.inputs["chosen"]]),
        "row_scores": read_row_scores(job.inputs["row_scores"]),
    }
    asked = job.spec
    results = ExperimentResults(
        tables, asked["tasks"], NO_PAPER.printed, unfinished=asked["unfinished"]
    )
    write_table(answers_table(results), outputs["answers"])
    write_table(summary_table(results), outputs["summary"])
    save_figure(draw_front(results), outputs["front"])


def _runs(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write the table of all runs, and the meanings of its columns."""
    from subtune.analysis.runs import column_meanings, join_run_ids, table_of_runs

    planned = join_run_ids(job.spec["planned"], *_finished(job))
    table = table_of_runs(Path(job.resources["store"]), planned)
    table.to_csv(outputs["csv"], index=False)
    table.to_parquet(outputs["parquet"], index=False)
    column_meanings(list(table)).to_csv(outputs["columns"], index=False)


def _report_page(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write one page with all tables, figures, costs and origins, which opens without a network."""
    import pandas as pd
    import yaml

    from subtune.exhibits.page import page

    config = yaml.safe_dump(job.spec["config"], sort_keys=False, allow_unicode=True)
    runs = pd.read_parquet(_one(job, "runs"))
    html = page(job.spec["answer"], job.spec["sections"], runs, config)
    Path(outputs["page"]).write_text(html, encoding="utf-8")


def _test_predictions(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Predict the test rows with a model's chosen runs, and write the logits, run by run."""
    import pandas as pd

    from subtune.analysis import scores
    from subtune.data.load import read_splits
    from subtune.runs import records
    from subtune.runs.spec import Fit
    from subtune.training import trained_models

    store = Path(job.resources["store"])
    best = scores.best_of_seeds(scores.read_scores(_one(job, "chosen")))
    best = best[best["model"] == job.spec["model"]].dropna(subset=["value"])
    predicted = [trained_models.NO_PREDICTIONS]
    for name, tokens in zip(job.spec["tasks"], job.inputs["tokens"], strict=True):
        runs = best.loc[best["task"] == name, "run"].unique()
        specs = [records.read_spec(store, run) for run in runs]
        # A regression on embeddings reads other tokens.
        specs = [spec for spec in specs if not isinstance(spec.recipe, Fit)]
        if specs:
            model = _loaded(job, specs[0], threads)
            predicted.append(
                trained_models.predict_test_rows(store, specs, model, read_splits(Path(tokens)))
            )
    pd.concat(predicted, ignore_index=True).to_parquet(outputs["predictions"], index=False)


def _submissions(job: Job, outputs: dict[str, Any], threads: int) -> None:
    """Write zip files for the GLUE server, and a table of their contents."""
    import pandas as pd

    from subtune.analysis import scores
    from subtune.exhibits import glue_server
    from subtune.exhibits.output import write_table
    from subtune.papers.shared import SUBMISSION

    best = scores.best_of_seeds(scores.read_scores(_one(job, "chosen")))
    predicted = {path: pd.read_parquet(path) for path in job.inputs["predicted"]}
    parts = []
    for submission, path in zip(job.spec["submissions"], outputs["zips"], strict=True):
        runs = best[best["model"] == submission["model"]]
        runs = runs[runs["method"] == submission["method"]]
        predictions, part = glue_server.make_submission(predicted[submission["predicted"]], runs)
        glue_server.write_zip(Path(path), predictions)
        parts.append(part.assign(submission=f"{submission['name']}.zip"))
    contents = {"submission": pd.concat(parts, ignore_index=True)}
    write_table(SUBMISSION.make(contents), outputs["contents"])


def _one(job: Job, name: str) -> str:
    """Return the path of an input that is one file or folder."""
    path = job.inputs[name]
    assert isinstance(path, str)
    return path


def _finished(job: Job) -> list[list[Path]]:
    """Return the tables of finished sweeps, and the outputs of their searches."""
    return [[*map(Path, job.inputs[name])] for name in ("sweeps", "searches")]


def _loaded(job: Job, spec: "RunSpec | FisherSpec", threads: int) -> "Encoder":
    """Return a job's model with a head for the spec's task, on the device that computes."""
    from subtune.models.encoder import load_spec_encoder

    return load_spec_encoder(spec, _one(job, "model")).to(prepare(threads))


@contextmanager
def _training(job: Job, threads: int) -> "Iterator[Callable[[Sequence[RunSpec]], None]]":
    """Yield a function that trains and records runs, until a signal asks it to stop.

    At the end without an error, the checkpoints are removed.
    """
    from subtune.data.load import read_splits
    from subtune.methods.single_entries import read_entry_values
    from subtune.training.checkpoints import Checkpoints
    from subtune.training.recording import train_and_record

    resources = job.resources
    read_once: list[Any] = []

    def train(specs: "Sequence[RunSpec]") -> None:
        if not read_once:
            ranked = {
                Path(p).stem: read_entry_values(Path(p)) for p in job.inputs.get("rankings", ())
            }
            tokens = read_splits(Path(_one(job, "tokens")))
            read_once.extend([_loaded(job, specs[0], threads), tokens, ranked])
        model, tokens, ranked = read_once
        store = Path(resources["store"])
        scored = [spec.id for spec in specs if spec.selection.id in resources["train_scores"]]
        train_and_record(
            specs,
            store,
            model,
            tokens,
            ranked,
            report,
            checkpoints=checkpoints,
            train_scores=scored,
        )

    seconds = 60 * resources["checkpoint_minutes"]
    with stop_requests() as stopping:
        checkpoints = Checkpoints(Path(resources["checkpoints"]), seconds, stopping)
        yield train
        checkpoints.clear()


# By kind, the function that does a job. Its arguments: job, drafts of its outputs, threads.
KINDS: dict[str, Callable[[Job, Any, int], None]] = {
    "dataset": _dataset,
    "model": _model,
    "tokens": _tokens,
    "fisher": _fisher,
    "ranking": _ranking,
    "search": _search,
    "train": _train,
    "scores": _scores,
    "exhibits": _exhibits,
    "summary": _summary,
    "runs": _runs,
    "report_page": _report_page,
    "test_predictions": _test_predictions,
    "submissions": _submissions,
}
