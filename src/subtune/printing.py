"""Format the output of `subtune params` and `subtune plan` as lines and Markdown tables."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import filterfalse
from pathlib import Path

import pandas as pd

from subtune.core.errors import SubtuneError, format_duration, locate_errors
from subtune.core.files import Layout
from subtune.methods import COMBINATIONS, METHODS, RANKED_BY, NamedSelection, find_selection
from subtune.methods.rules import RANDOM
from subtune.models.dimensions import (
    AnyDimensions,
    count_parameters,
    known_dimensions,
    papers_models,
    read_dimensions,
)
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.models.model_config import choose_head, read_pooling
from subtune.plan.cost import ATTEMPTS, Estimates
from subtune.runs.learning_rates import complete_runs, join_recorded_runs
from subtune.runs.records import read_score


def parameter_table(
    methods: Sequence[str],
    selections: Mapping[str, NamedSelection],
    directories: Mapping[str, Path],
    labels: int,
) -> pd.DataFrame:
    """Count the parameters that each method trains, with one row per model and method.

    The default of ``methods`` is all methods, and of ``directories`` the papers' models.
    """
    models: Mapping[str, AnyDimensions] = {
        name: read_dimensions(directory) for name, directory in directories.items()
    } or papers_models()
    pooling = {name: read_pooling(directory) for name, directory in directories.items()}
    chosen = methods or [*METHODS, *COMBINATIONS, *selections]
    with locate_errors("METHOD" if selections else "METHOD (--config FILE adds your own methods)"):
        return pd.concat(
            count_parameters(
                {name: model},
                {method: find_selection(method, selections, name) for method in chosen},
                labels,
                choose_head(pooling.get(name), SEQUENCE_CLASSIFICATION, model.model_type),
            )
            for name, model in models.items()
        )


def parameter_lines(counts: pd.DataFrame) -> Iterator[str]:
    """Format the table of `parameter_table`.

    Lines below the table state the size of the classifier, and why counts are missing. If all are
    missing, a `SubtuneError` is raised.
    """
    uncounted = counts.dropna(subset="problem").groupby("problem", sort=False)["method"].unique()
    if counts["problem"].notna().all():
        raise SubtuneError("\n".join(uncounted.index))
    cells = [
        "–" if pd.isna(count) else f"{count:,} ({share:.3%})"
        for count, share in zip(counts["parameters"], counts["share"], strict=True)
    ]
    by_model = counts.assign(cell=cells).pivot(index="method", columns="model", values="cell")
    methods, models = counts["method"].unique(), counts["model"].unique()
    yield by_model.loc[methods, models].to_markdown(disable_numparse=True)
    classifiers = counts.drop_duplicates("model").set_index("model")["classifier"]
    sizes = ", ".join(f"{size:,} in {model}" for model, size in classifiers.items())
    yield f"\nThe counts include the classifier, which every method trains: {sizes}."
    yield "Percentages are relative to the pretrained parameters, without the classifier."
    for problem, names in uncounted.items():
        yield f"\n– {', '.join(names)}: {problem}"


def plan_lines(table: pd.DataFrame, estimates: Estimates) -> Iterator[str]:
    """Format the cost table, the assumptions behind the estimates, and the progress so far."""
    plan = estimates.plan
    formats = ["", "", "", "", ".2e", ".2e", ",.1f", ",.1f"]
    yield table.to_markdown(index=False, floatfmt=formats, numalign="right", disable_numparse=[0])
    methods = {run.method for runs in plan.experiments.values() for run in runs}
    if controls := sorted(f"`{name}`" for name in methods if name.endswith(f"{RANKED_BY}{RANDOM}")):
        yield f"\nControls, which train as many random entries: {', '.join(controls)}."
    jobs = [*map(estimates.sweep_cost, plan.sweeps)]
    jobs += map(estimates.search_cost, plan.search_jobs)
    longest = max(job.seconds for job in jobs)
    largest = max(estimates.checkpoint_bytes(sweep) for sweep in plan.sweeps) / 1e9
    yield (
        f"\nOn the assumed device, {plan.config.assumptions.device}, the longest job takes "
        f"{format_duration(longest)}. While a job runs, its checkpoints take up to "
        f"{largest:,.2f} GB.\nThe estimates use these values, which you can change under "
        "`assumptions` in the configuration:\n"
    )
    assumptions = plan.config.assumptions.model_dump(exclude={"pace"})
    for kind, pace in estimates.paces.items():
        text = f"{pace.per_layer:.3g} ms per layer, {pace.per_teraflop:.3g} s per 10¹² operations"
        assumptions[f"pace of {kind}"] = text
    rows = pd.DataFrame(assumptions.items(), columns=["assumption", "value"])
    yield rows.to_markdown(index=False)
    for location in filterfalse(known_dimensions, sorted({*plan.locations.values()})):
        yield (
            f"\n{location} is not downloaded yet, so its costs are estimated with the size of "
            "bert-large-cased."
        )
    together = [sum(estimates.job_minutes(job, attempt) for attempt in ATTEMPTS) for job in jobs]
    hours = plan.config.assumptions.longest_job_hours
    if too_long := sum(map(operator.lt, together, (job.seconds / 60 for job in jobs))):
        yield (
            f"\n{too_long:,} of {len(jobs):,} training jobs would not end on a cluster, because "
            f"{len(ATTEMPTS)} attempts of at most {hours} hours are too short.\nSet a lower "
            "`runs_per_job`, a higher `longest_job_hours` or a higher `restart-times`."
        )
    layout = Layout(plan.config.results)
    masks = map(layout.mask, plan.masks)
    score = partial(read_score, Path(layout.records()))
    recorded = len(join_recorded_runs(complete_runs(plan.runs.values(), masks), score))
    yield f"\nRecorded so far: {recorded:,} of {len(plan.runs):,} runs."
    benchmarks = {sweep: Path(layout.benchmark("train", sweep)) for sweep in plan.sweeps}
    done = {sweep: path for sweep, path in benchmarks.items() if path.is_file()}
    if done:
        # Snakemake's benchmark file of a job contains only the duration of the last attempt.
        seconds = sum(float(pd.read_csv(path, sep="\t")["s"].iloc[0]) for path in done.values())
        expected = sum(estimates.sweep_cost(sweep).seconds for sweep in done)
        yield (
            f"{len(done)} of {len(plan.sweeps)} sweeps are done, and took {seconds:,.0f} s, "
            f"which is {seconds / expected:.2f} times the estimate."
        )
