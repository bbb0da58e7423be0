"""Tables that compare reproduced scores with the scores that a paper prints."""

import itertools
from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from subtune.analysis.chosen_runs import count_encoder_parameters, drop_runs_with_mask
from subtune.analysis.statistics import SIGNIFICANCE, wilcoxon
from subtune.exhibits.output import EMPTY, MARK, ExperimentResults, StyledTable, format_scores
from subtune.methods import FULL, SELECTION, method_title
from subtune.methods.roles import is_classifier, split_name
from subtune.models.model_config import count_parameters, read_dimensions
from subtune.tasks import TASKS
from subtune.tasks.metrics import TITLES
from subtune.tasks.task import list_score_columns

# The metric's name in table rows that contain a mean over tasks.
AVERAGE = "average"


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


ABOUT = ["scores of", "method", "parameters", "% of full"]
NOTE = (
    f"{MARK} marks methods whose scores across tasks differ from those of full fine-tuning "
    f"(Wilcoxon signed-rank test, p < {SIGNIFICANCE}, without correction for multiple tests). The "
    "best scores are bold. In rows of this run, the number of parameters includes the classifier, "
    "which every method trains; the percentage does not."
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
    sizes: str | None = None,
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

    ``quoted`` are titles of methods whose scores the paper cites from another paper, and ``sizes``
    is the paper's table of training set sizes, which are shown above the scores.
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
    averaged = averaged_tasks(printed)
    means = _map_averages_to_columns(averaged, [*tasks])
    rows = _format_reproduced_rows(runs, [*tasks], means.values(), source, scale)
    titles = {method: method_title(method) for method in printed["method"]} | dict(quoted or {})
    printed = printed.assign(title=printed["method"].map(titles))
    counts = results.printed("parameter_counts")
    is_printed = [columns == averaged for columns in means.values()]
    rows += _format_printed_rows(printed, counts, [*tasks], is_printed)
    rows = (_format_train_rows(results, sizes) if sizes else []) + rows
    table = pd.DataFrame(rows, columns=[*ABOUT, *tasks.values(), *means])
    numbers = _read_cells(table.drop(columns=ABOUT))
    marked = mark_differences(table, numbers[[*tasks.values()]])
    competing = numbers[~table["method"].isin(map(method_title, not_competing))]
    best = numbers == competing.groupby(table["scores of"]).transform("max").reindex(table.index)
    return StyledTable(table, marked, bold=best, note=NOTE)


def _read_cells(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the number at the start of each cell: the score, or its mean over seeds."""
    return cells.apply(lambda column: pd.to_numeric(column.str.partition(" ")[0], errors="coerce"))


def _format_train_rows(results: ExperimentResults, printed: str) -> list[list[str]]:
    """Format the reproduced and printed numbers of training examples as two rows of cells."""
    reproduced = {task: about["train_rows"] for task, about in results.tasks.items()}
    theirs = results.printed(printed).set_index("task")["rows"]
    tasks = [task for task, about in results.tasks.items() for _ in about["columns"]]
    return [
        [f"training examples: {source}", EMPTY, EMPTY, EMPTY]
        + [f"{sizes[task] / 1000:.3g}k" if task in sizes else EMPTY for task in tasks]
        for source, sizes in (("this run", reproduced), ("paper", theirs))
    ]


def _methods_printed_elsewhere(
    every: pd.DataFrame, shown: pd.DataFrame, tasks: Collection[str]
) -> set[str]:
    """Return the methods whose scores are printed only in tables that are not shown."""
    only_averages = every["is_average"].groupby(every["exhibit"]).transform("all")
    on_tasks = every["task"].isin(tasks) | only_averages
    return set(every.loc[on_tasks, "method"]) - set(shown["method"])


def _map_averages_to_columns(averaged: list[str], keys: list[str]) -> dict[str, list[str]]:
    """Map the headings of the averages over the paper's tasks and over the run tasks to columns."""
    if not averaged:
        return {}
    means = {f"average of {', '.join(TASKS[task].title for task in averaged)}": averaged}
    if not set(averaged) <= set(keys):
        means["average of this run"] = keys
    return means


def _format_reproduced_rows(
    runs: pd.DataFrame, keys: Sequence[str], means: Collection[list[str]], source: str, scale: int
) -> list[list[str]]:
    """Format reproduced scores as one row of cells for each model and method."""
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
            values = [scores.loc[scores["column"] == key, "value"] for key in keys]
            values += [average_columns(scores, columns)["value"] for columns in means]
            share = f"{encoder[method] / full:.3%}" if full else EMPTY
            about = [f"this run: {model}, {source}", method_title(method), f"{trained[method]:,}"]
            rows.append([*about, share, *(format_scores(value, scale) for value in values)])
    return rows


def _format_printed_rows(
    printed: pd.DataFrame, counts: pd.DataFrame, keys: Sequence[str], is_printed: Sequence[bool]
) -> list[list[str]]:
    """Format printed scores as one row of cells for each exhibit, model, split and method."""
    rows = []
    printed_counts = counts.set_index(["model", "method"])["printed"]
    has_several_exhibits = printed["exhibit"].nunique() > 1
    groups = printed.groupby(["exhibit", "model", "split", "method"], sort=False)
    for (exhibit, model, split, method), scores in groups:
        value = scores[~scores["is_average"]].set_index("task")["as_printed"]
        mean = scores.loc[scores["is_average"], "as_printed"]
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
            + [value.get(key, EMPTY) for key in keys]
            + [mean.iloc[0] if has_mean and len(mean) else EMPTY for has_mean in is_printed]
        )
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
                about = [model, title, TITLES[str(metric)], f"{rows:,}"]
                cells.append([*about, *map(format_scores, values)])
    titles = [method_title(method) for method in methods]
    table = pd.DataFrame(cells, columns=["model", "task", "metric", "training rows", *titles])
    numbers = _read_cells(table[titles])
    return StyledTable(table, bold=numbers.eq(numbers.max(axis=1), axis=0))


def gap_table(results: ExperimentResults) -> pd.DataFrame:
    """Build a table of training score, dev score and gap, reproduced and printed."""
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
    recorded = rows[rows["train"].notna() | rows["dev"].isna()]
    if len(recorded) or rows.empty:
        return format_scores(recorded[name], 100)
    return format_scores(rows["dev"], 100) if name == "dev" else NOT_RECORDED


def parameters_table(results: ExperimentResults, labels: int) -> StyledTable:
    """Build a table of what each method trains, with reproduced and printed parameter counts.

    Consecutive layers in which a method trains the same parameters are a group. ``N1`` is the
    number of the last layer of group 1, from 0. If all layers are one group, the cell is repeated
    for the three groups of the SPAFIT paper.
    """
    models, selections = results.models, results.selections
    selected = {method: SELECTION.validate_json(text) for method, text in selections.items()}
    dimensions = {model: read_dimensions(models[model]) for model in models}
    counts = count_parameters(dimensions, selected, labels).set_index(["model", "method"])
    millions = counts["parameters"] / 1e6
    deepest = max(dimensions.values(), key=lambda model: model.num_hidden_layers)
    layers: dict[int | None, list[str]] = {}
    for name in itertools.filterfalse(is_classifier, deepest.shapes(labels)):
        layers.setdefault(split_name(name).layer, []).append(name)
    outside = layers.pop(None)
    rows = []
    for selection in selected.values():
        texts = [selection.describe(names) for names in layers.values()]
        ends = [n for n, (this, after) in enumerate(itertools.pairwise(texts)) if this != after]
        groups = [texts[end] for end in (*ends, -1)] if ends else texts[:1] * 3
        row = {f"N{number}": str(end) for number, end in enumerate(ends, 1)}
        row |= {f"group {number}": text for number, text in enumerate(groups, 1)}
        rows.append(row | {"outside the layers": selection.describe(outside)})
    table = pd.DataFrame(rows, [*selections]).sort_index(axis=1)
    table.insert(0, "method", [*map(method_title, selections)])
    for model in models:
        table[f"parameters: {model}"] = millions[model].map("{:.2f}M".format)
    for model, printed in results.printed("parameter_counts").groupby("model", sort=False):
        table[f"paper: {model}"] = printed.set_index("method")["printed"]
    return StyledTable(table, wide=dict.fromkeys(table.filter(regex="group|outside"), 0.25))
