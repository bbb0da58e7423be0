"""Tables that compare reproduced scores with the scores that a paper prints."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from subtune.analysis.chosen_runs import (
    count_encoder_parameters,
    drop_runs_with_mask,
    have_same_unit,
    select_same_unit,
)
from subtune.analysis.statistics import SIGNIFICANCE, wilcoxon
from subtune.exhibits.output import (
    DIVERGED_CAPTION,
    EMPTY,
    MARK,
    ExperimentResults,
    Needs,
    StyledTable,
    Table,
    format_scores,
)
from subtune.methods import FULL, method_title
from subtune.tasks import TASKS
from subtune.tasks.metrics import is_scorer, metric_title
from subtune.tasks.task import list_score_columns

# The metric's name in table rows that contain a mean over tasks.
AVERAGE = "average"
# The heading of the mean over all tasks that were run.
AVERAGE_OF_RUN = "average of this run"


def select_printed_scores(printed: pd.DataFrame, exhibits: Collection[str]) -> pd.DataFrame:
    """Select a paper's scores in the tables or figures ``exhibits``, in this order."""
    parts = [printed[printed["exhibit"] == exhibit] for exhibit in exhibits]
    return pd.concat([printed[:0], *parts], ignore_index=True)


def averaged_tasks(printed: pd.DataFrame) -> list[str]:
    """Return the tasks over which a paper averages, or an empty list if it prints no average."""
    if not printed["is_average"].any():
        return []
    return list(printed.loc[~printed["is_average"], "task"].unique())


def average_columns(scores: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Average ``columns`` for each model, method and seed. If a run diverged, the mean is NaN."""
    seeds = scores[scores["column"].isin(columns)].groupby(["model", "method", "seed"])["value"]
    means = pd.DataFrame({"value": seeds.mean(skipna=False), "columns": seeds.size()})
    whole = means[means["columns"] == len(columns)]
    return whole.drop(columns="columns").reset_index()


def compare_with_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, test_scores: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Add reproduced scores to a table of printed scores, and the differences between the two.

    A single model that the paper does not use is compared with all models of the paper. ``ours`` is
    the mean over seeds. It is missing if the method was not run on the task, or if all seeds
    diverged. ``difference`` is ``ours - reported``. Printed averages are compared only if all
    tasks in the average were run.
    """
    parts = []
    for split, scores in {"validation": chosen, "test": test_scores}.items():
        if scores is not None:
            whole = drop_runs_with_mask(scores).dropna(subset=["value"])
            means = average_columns(whole, averaged_tasks(printed))
            means = means.assign(column=AVERAGE, is_average=True)
            groups = pd.concat([whole.assign(is_average=False), means])
            groups = groups.groupby(["model", "method", "column", "is_average"])["value"]
            rows = groups.agg(ours="mean", standard_deviation="std", seeds="size").reset_index()
            parts.append(rows.assign(split=split))
    reproduced = pd.concat(parts)
    models = list(drop_runs_with_mask(chosen)["model"].unique())
    table = printed.rename(columns={"value": "reported"})
    known = table["model"].where(table["model"].isin(models))
    if known.isna().all() and len(models) == 1:
        known = pd.Series(models[0], index=table.index)
    table = table.assign(our_model=known).merge(
        reproduced.rename(columns={"model": "our_model", "column": "task"}),
        on=["split", "our_model", "method", "task", "is_average"],
        how="left",
    )
    table["our_model"] = table["our_model"].where(table["ours"].notna())
    table["difference"] = table["ours"] - table["reported"]
    return table.drop(columns=["is_average", "as_printed", "scale"]).astype({"seeds": "Int64"})


# The first cells of a row, in the columns `ABOUT`, and the other cells by score column or average.
Row = tuple[list[str], dict[str, str]]
ABOUT = ["scores of", "method", "parameters", "% of full"]
NOTE = (
    f"{MARK} marks methods whose scores across tasks differ from those of full fine-tuning "
    f"(Wilcoxon signed-rank test, p < {SIGNIFICANCE}, without correction for multiple tests). The "
    "best scores are bold. In rows of this run, the number of parameters includes the classifier, "
    "which every method trains; the percentage does not."
)


def comparison_table(
    results: ExperimentResults,
    exhibits: Collection[str] = (),
    *,
    test: bool = False,
    printed_tasks: Collection[str] = (),
    quoted: Mapping[str, str] | None = None,
    not_competing: Collection[str] = (),
    train_rows: bool = False,
) -> StyledTable:
    """Build a table of the reproduced scores and, below them, the printed scores.

    All scores are in the paper's unit.

    There is one row for each model and method, and one column for each task:

    1. Tasks: the tasks of the runs, then ``printed_tasks``.
    2. Printed rows: all rows of ``exhibits``; with ``test``, only rows with test scores.
    3. Printed methods: all methods. Only methods that were run are shown if the paper lacks a task
       of the runs and ``printed_tasks`` is empty, because no other printed method can be compared.
    4. Models that were run: those in the printed rows or, if none of them was run, all.
    5. Methods that were run: all methods, except those whose scores on these tasks the paper prints
       only outside ``exhibits``.
    6. Averages: the average of the paper, if it prints one. If this average includes a task that
       was not run, a second column contains the average over the tasks that were run.
    7. Bold: the best score of each model. ``not_competing`` methods are ignored.

    ``quoted`` are titles of methods whose scores the paper cites from another paper. With
    ``train_rows``, the sizes of the training sets are shown above the scores.
    """
    chosen = results["test_scores"] if test else results["chosen"]
    sources = dict.fromkeys(about["source"] for about in results.tasks.values())
    source = "test set" if test else " and ".join(sources)
    every, tasks = results.printed("scores"), results.column_titles
    printed = select_printed_scores(every, exhibits)
    scale = max([1, *printed["scale"]])
    if test:
        printed = printed[printed["split"] == "test"]
    if not printed_tasks and not set(tasks) <= set(every["task"]):
        printed = printed[printed["method"].isin(chosen["method"])]
    others = [TASKS[task] for task in printed_tasks if task not in tasks]
    tasks |= {column.key: column.title for column in list_score_columns(others, {})}
    runs = drop_runs_with_mask(chosen)
    of_printed_models = runs["model"].isin(printed["model"])
    runs = runs[of_printed_models] if of_printed_models.any() else runs
    runs = runs[~runs["method"].isin(_methods_printed_elsewhere(every, printed, [*tasks]))]
    means = _map_averages_to_columns(averaged_tasks(printed), tasks)
    if not have_same_unit(runs):
        means.pop(AVERAGE_OF_RUN, None)
    titles = {method: method_title(method) for method in printed["method"]} | dict(quoted or {})
    printed = printed.assign(
        title=printed["method"].map(titles),
        column=printed["task"].mask(printed["is_average"], next(iter(means), "")),
    )
    rows = _format_train_rows(results) if train_rows else []
    rows += _format_reproduced_rows(runs, [*tasks], means, source, scale)
    rows += _format_printed_rows(printed, results.printed("parameter_counts"))
    keys = [*tasks, *means]
    table = pd.DataFrame(
        [[*about, *(cells.get(key, EMPTY) for key in keys)] for about, cells in rows],
        columns=[*ABOUT, *tasks.values(), *means],
    )
    numbers = _read_cells(table.drop(columns=ABOUT))
    other_units = {*runs["column"]} - {*select_same_unit(runs)["column"]}
    tested = [title for key, title in tasks.items() if key not in other_units]
    marked = mark_differences(table, numbers[tested])
    competing = numbers[~table["method"].isin(map(method_title, not_competing))]
    best = numbers == competing.groupby(table["scores of"]).transform("max").reindex(table.index)
    return StyledTable(table, marked, bold=best, note=NOTE)


COMPARISON_CAPTION = (
    "The table compares reproduced scores (upper rows) with the paper's scores (lower rows), in "
    "the paper's unit. Reproduced scores are from the best learning rate and epoch of each "
    "method. " + DIVERGED_CAPTION
)


def dev_score_table(name: str, title: str, exhibits: Sequence[str], **options: Any) -> Table:
    """Declare a table of reproduced and printed dev scores, with options of `comparison_table`."""
    make = partial(comparison_table, exhibits=exhibits, **options)
    return Table(name, title, COMPARISON_CAPTION, make)


def test_score_table(name: str, exhibits: Sequence[str], **options: Any) -> Table:
    """Declare a table of test scores from the GLUE server, followed by the paper's scores."""
    table = dev_score_table(name, "Test scores", exhibits, test=True, **options)
    return replace(table, needs=Needs(tables=("test_scores",)))


SCORES = Table(
    "scores",
    "Dev scores",
    "The table lists the scores of each method at its best learning rate. " + DIVERGED_CAPTION,
    make=comparison_table,
)


def _read_cells(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the number at the start of each cell: the score, or its mean over seeds."""
    return cells.apply(lambda column: pd.to_numeric(column.str.partition(" ")[0], errors="coerce"))


def _format_train_rows(results: ExperimentResults) -> list[Row]:
    """Format the reproduced and printed numbers of training examples as two rows."""
    reproduced = {task: about["train_rows"] for task, about in results.tasks.items()}
    printed = results.printed("train_rows").set_index("task")["rows"]
    rows = []
    for source, sizes in (("this run", reproduced), ("paper", printed)):
        cells = dict[str, str]()
        for task, about in results.tasks.items():
            if task in sizes:
                cells |= dict.fromkeys(about["columns"], f"{sizes[task] / 1000:.3g}k")
        rows.append(([f"training examples: {source}", EMPTY, EMPTY, EMPTY], cells))
    return rows


def _methods_printed_elsewhere(
    every: pd.DataFrame, shown: pd.DataFrame, tasks: Collection[str]
) -> set[str]:
    """Return the methods whose scores are printed only in tables that are not shown."""
    only_averages = every["is_average"].groupby(every["exhibit"]).transform("all")
    on_tasks = every["task"].isin(tasks) | only_averages
    return set(every.loc[on_tasks, "method"]) - set(shown["method"])


def _map_averages_to_columns(
    averaged: list[str], titles: Mapping[str, str]
) -> dict[str, list[str]]:
    """Map the headings of the averages over the paper's tasks and over the run tasks to columns.

    ``titles`` has the titles of the run tasks' columns.
    """
    if not averaged:
        return {}
    known = {**titles} | {name: task.title for name, task in TASKS.items()}
    means = {f"average of {', '.join(known.get(task, task) for task in averaged)}": averaged}
    if not set(averaged) <= set(titles):
        means[AVERAGE_OF_RUN] = [*titles]
    return means


def _format_reproduced_rows(
    runs: pd.DataFrame,
    keys: Sequence[str],
    means: Mapping[str, list[str]],
    source: str,
    scale: int,
) -> list[Row]:
    """Format reproduced scores as one row for each model and method."""
    rows = []
    for model, model_runs in runs.groupby("model", sort=False):
        # The classifiers of the tasks differ in size. The counts include a classifier of the most
        # frequent size. Ties are broken in favour of the largest size.
        largest = model_runs.groupby("task")["trainable"].max()
        usual = largest[largest == largest.mode().iloc[-1]].index[0]
        task_runs = model_runs[model_runs["task"] == usual]
        task_runs = task_runs.drop_duplicates("method").set_index("method")
        trained, encoder = task_runs["trainable"], count_encoder_parameters(task_runs)
        full = encoder.get(FULL)
        for method in model_runs["method"].drop_duplicates():
            scores = model_runs[model_runs["method"] == method]
            values = {key: scores.loc[scores["column"] == key, "value"] for key in keys}
            for heading, columns in means.items():
                values[heading] = average_columns(scores, columns)["value"]
            share = f"{encoder[method] / full:.3%}" if full else EMPTY
            about = [f"this run: {model}, {source}", method_title(method), f"{trained[method]:,}"]
            # A scorer has a unit of its own.
            metric_of = scores.drop_duplicates("column").set_index("column")["metric"]
            in_own_unit = {key for key, metric in metric_of.items() if is_scorer(metric)}
            cells = {
                key: format_scores(value, 1 if key in in_own_unit else scale)
                for key, value in values.items()
            }
            rows.append(([*about, share], cells))
    return rows


def _format_printed_rows(printed: pd.DataFrame, counts: pd.DataFrame) -> list[Row]:
    """Format printed scores as one row for each exhibit, model, split and method."""
    rows = []
    printed_counts = counts.set_index(["model", "method"])["printed"]
    has_several_exhibits = printed["exhibit"].nunique() > 1
    groups = printed.groupby(["exhibit", "model", "split", "method"], sort=False)
    for (exhibit, model, split, method), scores in groups:
        source = f"paper: {model}"
        if split != "validation":
            source += f", {split}"
        if has_several_exhibits:
            source += f", {exhibit}"
        # Some papers print percentages of all parameters instead of counts.
        count = printed_counts.get((model, method), EMPTY)
        shares = [n for n in (scores["params"].iloc[0], count) if str(n).endswith("%")]
        about = [source, scores["title"].iloc[0]]
        about += [EMPTY if str(count).endswith("%") else count, (shares or [EMPTY])[0]]
        rows.append((about, dict(zip(scores["column"], scores["as_printed"], strict=True))))
    return rows


def mark_differences(table: pd.DataFrame, numbers: pd.DataFrame) -> pd.DataFrame:
    """Mark the methods whose scores differ significantly from full fine-tuning.

    The test is a two-sided Wilcoxon signed-rank test over the score columns, with p <
    `SIGNIFICANCE` and without correction for multiple tests. With fewer than six columns, no
    difference is significant.
    """
    marked = table.copy()
    for _, block in numbers.groupby(table["scores of"]):
        full = block[table.loc[block.index, "method"] == method_title(FULL)]
        for row, scores in block.iterrows() if len(full) else ():
            p_value = wilcoxon((scores - full.iloc[0]).dropna())
            if p_value is not None and p_value < SIGNIFICANCE:
                marked.loc[row, "method"] += f" {MARK}"
    return marked


def scores_by_train_size_table(
    results: ExperimentResults, methods: Sequence[str] | None = None
) -> StyledTable:
    """Build a table of scores with one row per training set size and one column per method."""
    sizes = results["sizes"]
    methods = methods or list(sizes["method"].unique())
    cells = []
    for column, title in results.column_titles.items():
        column_scores = sizes[sizes["column"] == column]
        for (model, metric), scores in column_scores.groupby(["model", "metric"], sort=False):
            for rows, same in scores.groupby("train_rows"):
                values = [same.loc[same["method"] == method, "value"] for method in methods]
                about = [model, title, metric_title(str(metric)), f"{rows:,}"]
                cells.append([*about, *map(format_scores, values)])
    titles = [method_title(method) for method in methods]
    table = pd.DataFrame(cells, columns=["model", "task", "metric", "training rows", *titles])
    numbers = _read_cells(table[titles])
    return StyledTable(table, bold=numbers.eq(numbers.max(axis=1), axis=0))


SCORES_BY_SIZE = Table(
    "scores_by_size",
    "Scores by number of training examples",
    "The table lists dev scores in all metrics for each number of training examples, at the best "
    "learning rate of each method. The metric that the other tables show selects the learning "
    "rates. The best score of each row is bold.",
    make=scores_by_train_size_table,
    needs=Needs(tables=("sizes",)),
)
