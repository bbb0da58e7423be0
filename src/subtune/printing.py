"""Lines and tables that `subtune params` and `subtune plan` print, in Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.core.files import Layout
from subtune.methods import COMBINATIONS, METHODS, NamedSelection, find_selection
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.models.model_config import (
    AnyDimensions,
    choose_head,
    count_parameters,
    papers_models,
    read_dimensions,
    read_pooling,
)
from subtune.plan.cost import Estimates
from subtune.runs.records import is_recorded


def parameter_table(
    methods: Sequence[str],
    selections: Mapping[str, NamedSelection],
    directory: Path | None,
    labels: int,
) -> pd.DataFrame:
    """Return what methods train in a model, or in the papers' models: a row per model and method.

    Args:
        methods: names of methods; if there are none, all methods.
        selections: the user's own selections.
        directory: the model; None: the papers' models.
        labels: the number of labels of the classifier.
    """
    if directory:
        models: Mapping[str, AnyDimensions] = {directory.name: read_dimensions(directory)}
        read = models[directory.name]
        head = choose_head(read_pooling(directory), SEQUENCE_CLASSIFICATION, read.model_type)
    else:
        models = papers_models()
        head = SEQUENCE_CLASSIFICATION
    every = methods or [*METHODS, *COMBINATIONS, *selections]
    return pd.concat(
        count_parameters(
            {name: model},
            {method: find_selection(method, selections, name) for method in every},
            labels,
            head,
        )
        for name, model in models.items()
    )


def parameter_lines(counts: pd.DataFrame) -> Iterator[str]:
    """Yield the table of `parameter_table`, and lines about the classifier and missing numbers.

    Raises:
        SubtuneError: no method can be counted in any model.
    """
    lacking = counts.dropna(subset="problem").groupby("problem", sort=False)["method"].unique()
    if counts["problem"].notna().all():
        raise SubtuneError("\n".join(lacking.index))
    cells = [
        "–" if pd.isna(count) else f"{count:,} ({share:.3%})"
        for count, share in zip(counts["parameters"], counts["share"], strict=True)
    ]
    by_model = counts.assign(cell=cells).pivot(index="method", columns="model", values="cell")
    methods, models = counts["method"].unique(), counts["model"].unique()
    yield by_model.loc[methods, models].to_markdown(disable_numparse=True)
    classifiers = counts.drop_duplicates("model").set_index("model")["classifier"]
    sizes = ", ".join(f"{size:,} in {model}" for model, size in classifiers.items())
    yield f"\nCounted with the classifier, which always trains: {sizes}."
    yield "Shares in parentheses are of the pretrained parameters, without the classifier."
    for problem, names in lacking.items():
        yield f"\n– {', '.join(names)}: {problem}"


def plan_lines(table: pd.DataFrame, estimates: Estimates) -> Iterator[str]:
    """Yield the table of costs, the assumptions behind it, and what is recorded so far."""
    plan = estimates.plan
    formats = ["", "", "", "", ".2e", ".2e", ",.1f", ",.1f"]
    yield table.to_markdown(index=False, floatfmt=formats, numalign="right", disable_numparse=[0])
    jobs = [estimates.sweep_cost(sweep).seconds for sweep in plan.sweeps]
    jobs += [estimates.search_cost(job).seconds for job in plan.search_jobs]
    largest = max(estimates.checkpoint_bytes(sweep) for sweep in plan.sweeps) / 1e9
    yield (
        f"\nThe longest job takes {max(jobs) / 3600:,.1f} hours; checkpoints take up to "
        f"{largest:,.2f} GB per job\nwhile it runs. Assumed, under `assumptions` in the "
        "configuration:\n"
    )
    assumptions = plan.config.assumptions.model_dump(exclude={"pace"})
    for kind, pace in estimates.paces.items():
        each = f"{pace.per_layer:.3g} ms per layer, {pace.per_teraflop:.3g} s per 10¹² operations"
        assumptions[f"pace of {kind}"] = each
    rows = pd.DataFrame(assumptions.items(), columns=["assumption", "value"])
    yield rows.to_markdown(index=False)
    for location in estimates.unknown_models:
        yield f"\n{location} is not known before it is downloaded: counted as bert-large-cased."
    layout = Layout(plan.config.results)
    recorded = sum(is_recorded(Path(layout.records()), run) for run in plan.runs)
    yield f"\nRecorded so far: {recorded:,} of {len(plan.runs):,} runs."
    benchmarks = {sweep: Path(layout.benchmark("train", sweep)) for sweep in plan.sweeps}
    done = {sweep: path for sweep, path in benchmarks.items() if path.is_file()}
    if done:
        # A file has the seconds of the job's last attempt.
        took = sum(float(pd.read_csv(path, sep="\t")["s"].iloc[0]) for path in done.values())
        expected = sum(estimates.sweep_cost(sweep).seconds for sweep in done)
        yield (
            f"{len(done)} of {len(plan.sweeps)} sweeps are done. They took {took:,.0f} s, "
            f"{took / expected:.2f} times the estimate."
        )
