"""Tabulates our scores next to those that a paper prints."""

from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from subtune.analysis.chosen_runs import trained_beside_classifier, whole_methods
from subtune.analysis.statistics import SIGNIFICANCE, wilcoxon
from subtune.exhibits.output import EMPTY, MARK, ExperimentResults, Styled, format_scores
from subtune.methods import SELECTION, method_title
from subtune.models.model_config import count_parameters, read_dimensions
from subtune.tasks import TASKS
from subtune.tasks.metrics import TITLES
from subtune.tasks.task import list_score_columns

# The name that stands for the metric of a mean over tasks.
AVERAGE = "average"


def exhibit_scores(printed: pd.DataFrame, exhibits: Collection[str]) -> pd.DataFrame:
    """Select the scores that some tables and figures of a paper print.

    Args:
        printed: the printed scores of the paper.
        exhibits: the names of the tables and figures, in the order of the result.
    """
    parts = [printed[printed["exhibit"] == exhibit] for exhibit in exhibits]
    return pd.concat([printed[:0], *parts], ignore_index=True)


def averaged_tasks(printed: pd.DataFrame) -> list[str]:
    """List the tasks over which a paper averages; empty if the paper prints no averages."""
    if not printed["is_average"].any():
        return []
    return list(printed.loc[~printed["is_average"], "task"].unique())


def averages(scores: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Average the scores of each model, method and seed over score columns.

    Seeds without a run for some column are left out.

    Args:
        scores: a table of scores.
        columns: the score columns to average over.

    Returns:
        ``model``, ``method``, ``seed``, and ``value``, which is missing if a run diverged.
    """
    seeds = scores[scores["column"].isin(columns)].groupby(["model", "method", "seed"])["value"]
    means = pd.DataFrame({"value": seeds.mean(skipna=False), "columns": seeds.size()})
    whole = means[means["columns"] == len(columns)]
    return whole.drop(columns="columns").reset_index()


def compare_with_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, test_scores: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Add our scores, and the differences from them, to the scores that a paper prints.

    Our score is missing if we have no run for the cell, or if the run diverged. Our average is
    missing if we have not run all of its tasks. If we have only one model, and the paper does not
    use it, our scores are compared with those of all models of the paper.

    Args:
        test_scores: a table like ``chosen``, with the scores that the GLUE server returned.

    Returns:
        The columns of ``printed``, where ``value`` is renamed to ``reported``, and

        * ``our_model``, ``seeds``
        * ``ours``, ``standard_deviation``: the mean and the standard deviation over our seeds
        * ``difference``: ``ours - reported``
    """
    parts = []
    for split, scores in {"validation": chosen, "test": test_scores}.items():
        if scores is not None:
            whole = whole_methods(scores).dropna(subset=["value"])
            means = averages(whole, averaged_tasks(printed)).assign(column=AVERAGE, is_average=True)
            groups = pd.concat([whole.assign(is_average=False), means])
            groups = groups.groupby(["model", "method", "column", "is_average"])["value"]
            rows = groups.agg(ours="mean", standard_deviation="std", seeds="size").reset_index()
            parts.append(rows.assign(split=split))
    ours = pd.concat(parts)
    models = list(whole_methods(chosen)["model"].unique())
    table = printed.rename(columns={"value": "reported"})
    known = table["model"].where(table["model"].isin(models))
    if known.isna().all() and len(models) == 1:
        known = pd.Series(models[0], index=table.index)
    table = table.assign(our_model=known).merge(
        ours.rename(columns={"model": "our_model", "column": "task"}),
        on=["split", "our_model", "method", "task", "is_average"],
        how="left",
    )
    table["our_model"] = table["our_model"].where(table["ours"].notna())
    table["difference"] = table["ours"] - table["reported"]
    return table.drop(columns="is_average").astype({"seeds": "Int64"})


ABOUT = ["scores of", "method", "parameters", "% of full"]
NOTE = (
    f"{MARK} scores on the tasks differ from those of Full (Wilcoxon signed-rank test, p < "
    f"{SIGNIFICANCE}, uncorrected). Best scores are bold. The parameter counts of this run include "
    "the classifier, which every method trains; the share of full fine-tuning excludes it."
)
GAP_TITLES = {"train": "train", "dev": "dev", "gap": "train − dev"}


def comparison_table(
    results: ExperimentResults,
    exhibits: Collection[str] = (),
    *,
    test: bool = False,
    printed_tasks: Collection[str] = (),
    quoted: Mapping[str, str] | None = None,
    not_competing: Collection[str] = (),
) -> Styled:
    """Tabulate our scores, and below them the scores that a paper prints.

    The table has one row per model and method, and one column per task. These rules apply:

    1. Tasks: the tasks of our runs, followed by ``printed_tasks``.
    2. Printed rows: all rows of ``exhibits``; with ``test``, only those with test scores.
    3. Printed methods: all methods. If the paper does not print scores for all of our tasks, only
       methods that we ran are shown, because others cannot be compared. This restriction does not
       apply if ``printed_tasks`` are given.
    4. Our models: the models of the printed rows. If we ran none of them, all our models are shown.
    5. Our methods: all methods, except those for which the paper prints scores on these tasks only
       in other tables and figures.
    6. Averages: the paper's average, if the paper prints one. If it includes a task that we did not
       run, our average has a separate column.
    7. Bold: the best score among the rows of a model, without the methods ``not_competing``.

    Args:
        exhibits: the names of the paper's tables and figures with the scores.
        test: whether to compare test scores instead of dev scores.
        printed_tasks: additional tasks, for which only printed scores are shown.
        quoted: maps methods whose scores the paper quotes from another paper to their titles.
        not_competing: methods whose scores are never bold.
    """
    chosen = results["test_scores"] if test else results["chosen"]
    sources = dict.fromkeys(about["source"] for about in results.tasks.values())
    source = "test set" if test else " and ".join(sources)
    every, tasks = results.printed("scores"), results.column_titles
    printed = exhibit_scores(every, exhibits)
    if test:
        printed = printed[printed["split"] == "test"]
    if not printed_tasks and not set(tasks) <= set(every["task"]):
        printed = printed[printed["method"].isin(chosen["method"])]
    others = [TASKS[task] for task in printed_tasks if task not in tasks]
    tasks |= {column.key: column.title for column in list_score_columns(others, {})}
    runs = whole_methods(chosen)
    of_printed_models = runs["model"].isin(printed["model"])
    runs = runs[of_printed_models] if of_printed_models.any() else runs
    runs = runs[~runs["method"].isin(_printed_elsewhere(every, printed, [*tasks]))]
    averaged = averaged_tasks(printed)
    means = _choose_averages(averaged, [*tasks])
    rows = _rows_of_runs(runs, [*tasks], means.values(), source)
    titles = {method: method_title(method) for method in printed["method"]} | dict(quoted or {})
    printed = printed.assign(title=printed["method"].map(titles))
    counts = results.printed("parameter_counts")
    is_printed = [columns == averaged for columns in means.values()]
    rows += _rows_of_paper(printed, counts, [*tasks], is_printed)
    table = pd.DataFrame(rows, columns=[*ABOUT, *tasks.values(), *means])
    # A cell with a score begins with the score or the mean.
    numbers = table.drop(columns=ABOUT).apply(
        lambda cells: pd.to_numeric(cells.str.partition(" ")[0], errors="coerce")
    )
    marked = mark_differences(table, numbers[[*tasks.values()]])
    competing = numbers[~table["method"].isin(map(method_title, not_competing))]
    best = competing == competing.groupby(table["scores of"]).transform("max")
    best = best.reindex(table.index, fill_value=False)
    return Styled(table, marked, bold=best, note=NOTE)


def _printed_elsewhere(
    every: pd.DataFrame, shown: pd.DataFrame, tasks: Collection[str]
) -> set[str]:
    """Find the methods whose scores on these tasks are only in other tables of the paper.

    A table of the paper with nothing but averages counts for all tasks.

    Args:
        every: all printed scores of the paper.
        shown: the printed scores that our table shows.
        tasks: the names of the tasks.
    """
    only_averages = every["is_average"].groupby(every["exhibit"]).transform("all")
    on_tasks = every["task"].isin(tasks) | only_averages
    return set(every.loc[on_tasks, "method"]) - set(shown["method"])


def _choose_averages(averaged: list[str], keys: list[str]) -> dict[str, list[str]]:
    """Choose the averages to show.

    The first is the paper's average. If we did not run all of its tasks, the average over our own
    tasks follows.

    Returns:
        Maps the heading of each average to the score columns that it averages over.
    """
    if not averaged:
        return {}
    means = {f"average of {', '.join(TASKS[task].title for task in averaged)}": averaged}
    if not set(averaged) <= set(keys):
        means["average of this run"] = keys
    return means


def _rows_of_runs(
    runs: pd.DataFrame, keys: Sequence[str], means: Collection[Sequence[str]], source: str
) -> list[list[str]]:
    """Format our scores as rows of cells, one row per model and method.

    Args:
        runs: our runs.
        keys: the score columns.
        means: for each average, the score columns that it averages over.
        source: a description of where the scores come from, such as ``test set``.
    """
    rows = []
    for model, model_runs in runs.groupby("model", sort=False):
        # Classifiers differ in size between tasks. The parameter counts include the most frequent
        # size; if several are equally frequent, the largest of them.
        largest = model_runs.groupby("task")["trainable"].max()
        usual = largest[largest == largest.mode().iloc[-1]].index[0]
        task_runs = model_runs[model_runs["task"] == usual]
        task_runs = task_runs.drop_duplicates("method").set_index("method")
        trained, beside = task_runs["trainable"], trained_beside_classifier(task_runs)
        full = beside.get("full")
        for method in model_runs["method"].drop_duplicates():
            scores = model_runs[model_runs["method"] == method]
            values = [scores.loc[scores["column"] == key, "value"] for key in keys]
            values += [averages(scores, columns)["value"] for columns in means]
            share = f"{beside[method] / full:.3%}" if full else EMPTY
            about = [f"this run: {model}, {source}", method_title(method), f"{trained[method]:,}"]
            rows.append([*about, share, *map(format_scores, values)])
    return rows


def _rows_of_paper(
    printed: pd.DataFrame, counts: pd.DataFrame, keys: Sequence[str], is_printed: Sequence[bool]
) -> list[list[str]]:
    """Format the printed scores as rows of cells, one row per printed row.

    Args:
        printed: the printed scores, with the ``title`` of each method.
        counts: the parameter counts that the paper prints.
        keys: the score columns.
        is_printed: for each column of averages, whether it is the paper's average.
    """
    rows = []
    printed_counts = counts.set_index(["model", "method"])["printed"]
    has_several_exhibits = printed["exhibit"].nunique() > 1
    groups = printed.groupby(["exhibit", "model", "split", "method"], sort=False)
    for (exhibit, model, split, method), scores in groups:
        value = scores[~scores["is_average"]].set_index("task")["value"]
        mean = scores.loc[scores["is_average"], "value"]
        source = f"paper: {model}"
        if split != "validation":
            source += f", {split}"
        if has_several_exhibits:
            source += f", {exhibit}"
        # Some papers print shares of all parameters instead of counts.
        count = printed_counts.get((model, method), EMPTY)
        shares = [n for n in (scores["params"].iloc[0], count) if str(n).endswith("%")]
        rows.append(
            [source, scores["title"].iloc[0]]
            + [EMPTY if str(count).endswith("%") else count, (shares or [EMPTY])[0]]
            + [f"{value[key]:.4f}" if key in value else EMPTY for key in keys]
            + [format_scores(mean) if has_mean else EMPTY for has_mean in is_printed]
        )
    return rows


def mark_differences(table: pd.DataFrame, numbers: pd.DataFrame) -> pd.DataFrame:
    """Mark the methods whose scores differ significantly from those of full fine-tuning.

    The test is the two-sided Wilcoxon signed-rank test over the score columns, at the level
    `SIGNIFICANCE`, without correction for multiple tests. With fewer than six columns, no
    difference can be significant.

    Args:
        table: the table as text.
        numbers: the scores of the table as numbers.
    """
    marked = table.copy()
    for _, block in numbers.groupby(table["scores of"]):
        full = block[table.loc[block.index, "method"] == method_title("full")]
        for row, scores in block.iterrows() if len(full) else ():
            p_value = wilcoxon((scores - full.iloc[0]).dropna())
            if p_value is not None and p_value < SIGNIFICANCE:
                marked.loc[row, "method"] += f" {MARK}"
    return marked


def sizes_table(results: ExperimentResults, methods: Sequence[str] | None = None) -> Styled:
    """Tabulate the scores on all training set sizes.

    There is one row per model, task, metric and training set size, and one column per method. The
    best mean over seeds in each row is bold.
    """
    sizes = results["sizes"]
    methods = methods or list(sizes["method"].unique())
    cells, means = [], []
    for column, title in results.column_titles.items():
        column_scores = sizes[sizes["column"] == column]
        for (model, metric), scores in column_scores.groupby(["model", "metric"], sort=False):
            for rows, same in scores.groupby("train_rows"):
                values = [same.loc[same["method"] == method, "value"] for method in methods]
                about = [model, title, TITLES[str(metric)], f"{rows:,}"]
                cells.append([*about, *map(format_scores, values)])
                means.append([v.mean() if v.notna().all() else float("nan") for v in values])
    titles = [method_title(method) for method in methods]
    table = pd.DataFrame(cells, columns=["model", "task", "metric", "training rows", *titles])
    numbers = pd.DataFrame(means, columns=titles)
    best = numbers.eq(numbers.max(axis=1), axis=0) & (table[titles] != EMPTY)
    return Styled(table, bold=best)


def gap_table(results: ExperimentResults) -> pd.DataFrame:
    """Tabulate train score, dev score and their difference for each model and method.

    There is one column per task. The last column quotes what the paper says about the method's
    train score, dev score or gap.
    """
    scores, column_titles = results["train_scores"], results.column_titles
    printed = results.printed("generalisation_gap")
    statements = printed.set_index(["method", "score"])["printed"]
    rows = []
    for (model, method), rows_of_method in scores.groupby(["model", "method"], sort=False):
        for name, title in GAP_TITLES.items():
            values = [
                rows_of_method.loc[rows_of_method["column"] == key, name] for key in column_titles
            ]
            about = [model, method_title(method), title]
            statement = statements.get((method, name), EMPTY)
            rows.append([*about, *map(format_scores, values), statement])
    return pd.DataFrame(
        rows, columns=["model", "method", "score", *column_titles.values(), "paper"]
    )


def parameters_table(results: ExperimentResults, labels: int) -> Styled:
    """Tabulate the parameters that each method trains, our count, and the count in the paper.

    Args:
        labels: the number of labels of the classifier, which is included in our count.
    """
    models, selections = results.models, results.selections
    selected = {method: SELECTION.validate_json(text) for method, text in selections.items()}
    counts = count_parameters({m: read_dimensions(models[m]) for m in models}, selected, labels)
    numbers = counts.set_index(["model", "method"])["parameters"]
    trains = [selection.describe() for selection in selected.values()]
    table = pd.DataFrame(
        {"method": [method_title(method) for method in selections], "trains": trains}
    )
    for model in models:
        parameters = [numbers[model, method] for method in selections]
        table[f"parameters: {model}"] = [f"{number / 1e6:.2f}M" for number in parameters]
    for model, rows in results.printed("parameter_counts").groupby("model", sort=False):
        count = rows.set_index("method")["printed"]
        table[f"paper: {model}"] = [count.get(method, EMPTY) for method in selections]
    return Styled(table, wide={"trains": 0.5})
