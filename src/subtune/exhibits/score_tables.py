"""Tables that compare our scores with the scores that a paper prints."""

from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from subtune.analysis.chosen_runs import count_encoder_parameters, drop_masked_runs
from subtune.analysis.statistics import SIGNIFICANCE, wilcoxon
from subtune.exhibits.output import EMPTY, MARK, ExperimentResults, StyledTable, format_scores
from subtune.methods import SELECTION, method_title
from subtune.models.model_config import count_parameters, read_dimensions
from subtune.tasks import TASKS
from subtune.tasks.metrics import TITLES
from subtune.tasks.task import list_score_columns

# The metric's name in table rows that contain a mean over tasks.
AVERAGE = "average"


def select_printed_scores(printed: pd.DataFrame, exhibits: Collection[str]) -> pd.DataFrame:
    """Select the scores in certain tables or figures of a paper, in the order of ``exhibits``."""
    parts = [printed[printed["exhibit"] == exhibit] for exhibit in exhibits]
    return pd.concat([printed[:0], *parts], ignore_index=True)


def averaged_tasks(printed: pd.DataFrame) -> list[str]:
    """Return the tasks over which a paper averages, or an empty list if it prints no average."""
    if not printed["is_average"].any():
        return []
    return list(printed.loc[~printed["is_average"], "task"].unique())


def average_columns(scores: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Compute the mean over score columns for each model, method and seed.

    A seed without a score in each of ``columns`` is left out.

    Returns:
        A table with the columns ``model``, ``method``, ``seed`` and ``value``. ``value`` is NaN if
        the method diverged in one of ``columns``.
    """
    seeds = scores[scores["column"].isin(columns)].groupby(["model", "method", "seed"])["value"]
    means = pd.DataFrame({"value": seeds.mean(skipna=False), "columns": seeds.size()})
    whole = means[means["columns"] == len(columns)]
    return whole.drop(columns="columns").reset_index()


def compare_with_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, test_scores: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Add our scores, and their differences from the printed ones, to a table of printed scores.

    Our score is missing if the method was not run on the task, or diverged with all seeds. If we
    ran a single model that the paper does not use, its scores are compared with those of all models
    of the paper.

    Args:
        test_scores: test scores from the GLUE server, with the columns of ``chosen``.

    Returns:
        The columns of ``printed``, with ``value`` renamed to ``reported``, and ``our_model``,
        ``seeds``, ``ours`` (mean over seeds), ``standard_deviation`` (over seeds, if there are
        several) and ``difference`` (ours minus reported). Printed averages are compared with our
        averages if all averaged tasks were run.
    """
    parts = []
    for split, scores in {"validation": chosen, "test": test_scores}.items():
        if scores is not None:
            whole = drop_masked_runs(scores).dropna(subset=["value"])
            means = average_columns(whole, averaged_tasks(printed))
            means = means.assign(column=AVERAGE, is_average=True)
            groups = pd.concat([whole.assign(is_average=False), means])
            groups = groups.groupby(["model", "method", "column", "is_average"])["value"]
            rows = groups.agg(ours="mean", standard_deviation="std", seeds="size").reset_index()
            parts.append(rows.assign(split=split))
    ours = pd.concat(parts)
    models = list(drop_masked_runs(chosen)["model"].unique())
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
    f"{MARK} marks methods whose scores differ from those of full fine-tuning over the tasks "
    f"(Wilcoxon signed-rank test, p < {SIGNIFICANCE}, without correction for multiple tests). The "
    "best scores are bold. In rows of this run, the number of parameters includes the classifier, "
    "which every method trains. The percentage of full fine-tuning excludes the classifier."
)
GAP_TITLES = {"train": "train", "dev": "dev", "gap": "train − dev"}
NOT_RECORDED = "not recorded"


def comparison_table(
    results: ExperimentResults,
    exhibits: Collection[str] = (),
    *,
    test: bool = False,
    printed_tasks: Collection[str] = (),
    quoted: Mapping[str, str] | None = None,
    not_competing: Collection[str] = (),
) -> StyledTable:
    """Build a table of our scores, followed by the scores printed in the paper.

    There is one row for each model and method, and one column for each task:

    1. Tasks: the tasks of our runs, then ``printed_tasks``.
    2. Printed rows: all rows of ``exhibits``; with ``test``, only rows with test scores.
    3. Printed methods: all methods. Only methods that we ran are shown if the paper lacks one of
       our tasks and ``printed_tasks`` is empty, because no other printed method can be compared.
    4. Our models: the models in the printed rows. If we ran none of them, all of our models.
    5. Our methods: all methods, except those whose scores on these tasks the paper prints only
       outside ``exhibits``.
    6. Averages: the average of the paper, if it prints one. If this average includes a task that we
       did not run, a second column contains the average over the tasks that we ran.
    7. Bold: the best score of each model. ``not_competing`` methods are ignored.

    Args:
        exhibits: the paper's tables and figures with the scores to show.
        test: compare test scores instead of dev scores.
        printed_tasks: additional tasks whose printed scores are shown.
        quoted: the titles of methods whose scores the paper cites from another paper.
        not_competing: methods whose scores are never bold.
    """
    chosen = results["test_scores"] if test else results["chosen"]
    sources = dict.fromkeys(about["source"] for about in results.tasks.values())
    source = "test set" if test else " and ".join(sources)
    every, tasks = results.printed("scores"), results.column_titles
    printed = select_printed_scores(every, exhibits)
    if test:
        printed = printed[printed["split"] == "test"]
    if not printed_tasks and not set(tasks) <= set(every["task"]):
        printed = printed[printed["method"].isin(chosen["method"])]
    others = [TASKS[task] for task in printed_tasks if task not in tasks]
    tasks |= {column.key: column.title for column in list_score_columns(others, {})}
    runs = drop_masked_runs(chosen)
    of_printed_models = runs["model"].isin(printed["model"])
    runs = runs[of_printed_models] if of_printed_models.any() else runs
    runs = runs[~runs["method"].isin(_methods_printed_elsewhere(every, printed, [*tasks]))]
    averaged = averaged_tasks(printed)
    means = _columns_of_averages(averaged, [*tasks])
    rows = _format_our_rows(runs, [*tasks], means.values(), source)
    titles = {method: method_title(method) for method in printed["method"]} | dict(quoted or {})
    printed = printed.assign(title=printed["method"].map(titles))
    counts = results.printed("parameter_counts")
    is_printed = [columns == averaged for columns in means.values()]
    rows += _format_printed_rows(printed, counts, [*tasks], is_printed)
    table = pd.DataFrame(rows, columns=[*ABOUT, *tasks.values(), *means])
    # Cells with a score begin with the score, or with the mean over seeds.
    numbers = table.drop(columns=ABOUT).apply(
        lambda cells: pd.to_numeric(cells.str.partition(" ")[0], errors="coerce")
    )
    marked = mark_differences(table, numbers[[*tasks.values()]])
    competing = numbers[~table["method"].isin(map(method_title, not_competing))]
    best = competing == competing.groupby(table["scores of"]).transform("max")
    best = best.reindex(table.index, fill_value=False)
    return StyledTable(table, marked, bold=best, note=NOTE)


def _methods_printed_elsewhere(
    every: pd.DataFrame, shown: pd.DataFrame, tasks: Collection[str]
) -> set[str]:
    """Return the methods whose scores are printed only in tables of the paper that are not shown.

    A table that prints only averages is treated as if it printed scores on all tasks.

    Args:
        every: all printed scores of the paper.
        shown: the printed scores that the table shows.
    """
    only_averages = every["is_average"].groupby(every["exhibit"]).transform("all")
    on_tasks = every["task"].isin(tasks) | only_averages
    return set(every.loc[on_tasks, "method"]) - set(shown["method"])


def _columns_of_averages(averaged: list[str], keys: list[str]) -> dict[str, list[str]]:
    """Map the heading of each average to the averaged score columns.

    The paper's average comes first. If a task of the paper was not run, the average over the tasks
    that were run follows.
    """
    if not averaged:
        return {}
    means = {f"average of {', '.join(TASKS[task].title for task in averaged)}": averaged}
    if not set(averaged) <= set(keys):
        means["average of this run"] = keys
    return means


def _format_our_rows(
    runs: pd.DataFrame, keys: Sequence[str], means: Collection[Sequence[str]], source: str
) -> list[list[str]]:
    """Format our scores as one row of cells for each model and method.

    Args:
        keys: the score columns.
        means: the score columns of each average.
        source: a description of the scored data, for readers.
    """
    rows = []
    for model, model_runs in runs.groupby("model", sort=False):
        # The classifiers of the tasks differ in size. The counts include the classifier of the most
        # frequent size or, if several sizes are equally frequent, of the largest of them.
        largest = model_runs.groupby("task")["trainable"].max()
        usual = largest[largest == largest.mode().iloc[-1]].index[0]
        task_runs = model_runs[model_runs["task"] == usual]
        task_runs = task_runs.drop_duplicates("method").set_index("method")
        trained, encoder = task_runs["trainable"], count_encoder_parameters(task_runs)
        full = encoder.get("full")
        for method in model_runs["method"].drop_duplicates():
            scores = model_runs[model_runs["method"] == method]
            values = [scores.loc[scores["column"] == key, "value"] for key in keys]
            values += [average_columns(scores, columns)["value"] for columns in means]
            share = f"{encoder[method] / full:.3%}" if full else EMPTY
            about = [f"this run: {model}, {source}", method_title(method), f"{trained[method]:,}"]
            rows.append([*about, share, *map(format_scores, values)])
    return rows


def _format_printed_rows(
    printed: pd.DataFrame, counts: pd.DataFrame, keys: Sequence[str], is_printed: Sequence[bool]
) -> list[list[str]]:
    """Format printed scores as one row of cells for each exhibit, model, split and method.

    Args:
        printed: the printed scores, with the ``title`` of each method.
        counts: the parameter counts that the paper prints.
        keys: the score columns.
        is_printed: for each column with an average, whether this is the average of the paper.
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
        # Some papers print percentages of all parameters instead of counts.
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

    The test is a two-sided Wilcoxon signed-rank test over the score columns, with
    p < `SIGNIFICANCE` and without correction for multiple tests. With fewer than six columns, no
    difference is significant. ``numbers`` contains the scores in the rows of ``table``.
    """
    marked = table.copy()
    for _, block in numbers.groupby(table["scores of"]):
        full = block[table.loc[block.index, "method"] == method_title("full")]
        for row, scores in block.iterrows() if len(full) else ():
            p_value = wilcoxon((scores - full.iloc[0]).dropna())
            if p_value is not None and p_value < SIGNIFICANCE:
                marked.loc[row, "method"] += f" {MARK}"
    return marked


def sizes_table(results: ExperimentResults, methods: Sequence[str] | None = None) -> StyledTable:
    """Build a table of scores by number of training examples, with one column for each method.

    There is one row for each model, task, metric and number of training examples. In each row, the
    best mean over seeds is bold.
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
    return StyledTable(table, bold=best)


def gap_table(results: ExperimentResults) -> pd.DataFrame:
    """Build a table of training score, dev score and gap for each model, method and task.

    The last column shows the corresponding numbers in the paper.
    """
    scores, column_titles = results["train_scores"], results.column_titles
    printed = results.printed("generalisation_gap")
    statements = printed.set_index(["method", "score"])["printed"]
    rows = []
    for (model, method), own in scores.groupby(["model", "method"], sort=False):
        for name, title in GAP_TITLES.items():
            texts = [_format_gap(own[own["column"] == key], name) for key in column_titles]
            statement = statements.get((method, name), EMPTY)
            rows.append([model, method_title(method), title, *texts, statement])
    columns = ["model", "method", "score", *column_titles.values(), "paper"]
    return pd.DataFrame(rows, columns=columns)


def _format_gap(rows: pd.DataFrame, name: str) -> str:
    """Format one score of `gap_table`, over the seeds with a recorded training score."""
    recorded = rows[rows["train"].notna() | rows["dev"].isna()]
    if len(recorded) or rows.empty:
        return format_scores(recorded[name])
    return format_scores(rows["dev"]) if name == "dev" else NOT_RECORDED


def parameters_table(results: ExperimentResults, labels: int) -> StyledTable:
    """Build a table of each method's trained parameters, with our counts and those of the paper.

    Args:
        labels: the number of labels of the classifier.
    """
    models, selections = results.models, results.selections
    selected = {method: SELECTION.validate_json(text) for method, text in selections.items()}
    counts = count_parameters({m: read_dimensions(models[m]) for m in models}, selected, labels)
    numbers = counts.set_index(["model", "method"])["parameters"]
    trains = [selection.describe() for selection in selected.values()]
    titles = [method_title(method) for method in selections]
    table = pd.DataFrame({"method": titles, "trains": trains})
    for model in models:
        parameters = [numbers[model, method] for method in selections]
        table[f"parameters: {model}"] = [f"{number / 1e6:.2f}M" for number in parameters]
    for model, rows in results.printed("parameter_counts").groupby("model", sort=False):
        count = rows.set_index("method")["printed"]
        table[f"paper: {model}"] = [count.get(method, EMPTY) for method in selections]
    return StyledTable(table, wide={"trains": 0.5})
