"""A table of scores, method by method and task by task: ours, and below them the paper's."""

from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from subtune.analysis.reproduction import averaged_tasks, of_exhibits
from subtune.analysis.scores import averages, trained_beside_classifier, whole_methods
from subtune.analysis.significance import wilcoxon
from subtune.exhibits.tables.writing import EMPTY, MARK, Emphasis, Styled, cell
from subtune.selections.methods import title_of
from subtune.tasks import TASKS
from subtune.tasks.score_columns import columns_of

DIFFERS = 0.05
NO_METHODS: Mapping[str, str] = {}
NOTE = (
    f"{MARK} differs from Full over the tasks (Wilcoxon signed-rank test, p < {DIFFERS}, "
    "uncorrected). Best scores are bold. Parameters of this run include the classifier, which "
    "every method trains; its share of full is without it."
)


def comparison(
    chosen: pd.DataFrame,
    printed: pd.DataFrame,
    counts: pd.DataFrame,
    column_titles: Mapping[str, str],
    source: str,
    exhibits: Sequence[str] = (),
    split: str | None = None,
    printed_tasks: Sequence[str] = (),
    quoted: Mapping[str, str] = NO_METHODS,
    not_competing: Sequence[str] = (),
) -> Styled:
    """Return a row per model and method, a column per task, and the average if the paper has one.

    Ours are the methods that the paper's exhibits have, of their models; where no model of ours is
    one of the paper's, of all our models. Methods that the paper prints for none of these tasks
    are ours too. Where the paper's average is over tasks that we have not run, ours has a column of
    its own.

    Args:
        chosen: the runs of the best learning rates.
        printed: the paper's scores, from `subtune.papers.printed.scores`.
        counts: its numbers of parameters, from `subtune.papers.printed.counts`.
        column_titles: column of the tables to its title.
        source: of which rows our scores are.
        exhibits: where the paper prints its scores.
        split: those of one split only.
        printed_tasks: tasks whose printed scores are shown where ours are of other ones.
        quoted: methods whose scores the paper quotes, to what its rows are called.
        not_competing: methods that do not compete for the best score.
    """
    others = [TASKS[task] for task in printed_tasks if task not in column_titles]
    titles = {**column_titles, **{c.key: c.title for c in columns_of(others, {})}}
    below = of_exhibits(printed, exhibits)
    if split:
        below = below[below["split"] == split]
    if not printed_tasks and not set(column_titles) <= set(printed["task"]):
        # The paper lacks some of our tasks: its other methods have nothing to be compared with.
        below = below[below["method"].isin(chosen["method"])]
    below = below.assign(title=[quoted.get(m, title_of(m)) for m in below["method"]])
    elsewhere = _printed_elsewhere(printed, below, [*titles])
    table = scores_of_methods(chosen, below, counts, elsewhere, titles, source)
    emphasis = Emphasis(bold=best_scores(table, not_competing), marks=differing(table), note=NOTE)
    return Styled(table, emphasis)


def scores_of_methods(
    chosen: pd.DataFrame,
    below: pd.DataFrame,
    counts: pd.DataFrame,
    elsewhere: Collection[str],
    column_titles: Mapping[str, str],
    source: str,
) -> pd.DataFrame:
    """Return the cells of `comparison`.

    ``below`` are the printed scores; methods that are printed ``elsewhere`` are not shown.
    """
    keys = [*column_titles]
    averaged = averaged_tasks(below)
    means = _means(averaged, keys)
    runs = whole_methods(chosen)
    known = set(below["model"]) & set(runs["model"])
    runs = runs[runs["model"].isin(known or set(runs["model"]))]
    runs = runs[~runs["method"].isin(elsewhere)]
    rows = []
    for model, runs_of_model in runs.groupby("model", sort=False):
        trained, shares = trained_parameters(runs_of_model), _shares_of_full(runs_of_model)
        for method in runs_of_model["method"].drop_duplicates():
            scores = runs_of_model[runs_of_model["method"] == method]
            values = [scores.loc[scores["column"] == key, "value"] for key in keys]
            values += [averages(scores, over)["value"] for over in means.values()]
            rows.append(
                [f"this run: {model}, {source}", title_of(method)]
                + [f"{trained[method]:,}", shares[method]]
                + [cell(value) for value in values]
            )
    printed_counts = counts.set_index(["model", "method"])["printed"]
    several = below["exhibit"].nunique() > 1
    groups = below.groupby(["exhibit", "model", "split", "method"], sort=False)
    for (exhibit, model, row_split, method), scores in groups:
        value = scores[~scores["is_average"]].set_index("task")["value"]
        mean = scores.loc[scores["is_average"], "value"]
        count = printed_counts.get((model, method), EMPTY)
        share = next((text for text in (scores["params"].iloc[0], count) if _is_share(text)), EMPTY)
        rows.append(
            [_source(model, row_split, exhibit if several else "")]
            + [scores["title"].iloc[0]]
            + [EMPTY if _is_share(count) else count, share]
            + [f"{value[key]:.4f}" if key in value else EMPTY for key in keys]
            + [cell(mean if over == averaged else mean.iloc[:0]) for over in means.values()]
        )
    heading = ["scores of", "method", "parameters", "% of full", *column_titles.values()]
    return pd.DataFrame(rows, columns=[*heading, *means])


def best_scores(table: pd.DataFrame, not_competing: Sequence[str]) -> pd.DataFrame:
    """Return where the best scores are: per block of rows and column, ties included.

    Args:
        table: from `scores_of_methods`.
        not_competing: methods that do not compete.

    Returns:
        True and False, in the shape of ``table``.
    """
    scores = _numbers(table.iloc[:, 4:])
    left_out = [title_of(method) for method in not_competing]
    scores[table["method"].isin(left_out)] = float("nan")
    best = scores.groupby(table["scores of"]).transform("max")
    return (scores == best).reindex(columns=table.columns, fill_value=False)


def differing(table: pd.DataFrame) -> pd.DataFrame:
    """Return marks after the methods whose scores differ from full fine-tuning's.

    The test is Wilcoxon's signed-rank test over the tasks' columns, two-sided, p < `DIFFERS`,
    uncorrected. It finds no difference in fewer than six columns.

    Args:
        table: from `scores_of_methods`.

    Returns:
        Text, in the shape of ``table``.
    """
    tasks = [column for column in table.columns[4:] if not column.startswith("average of ")]
    scores = _numbers(table[tasks])
    marks = pd.DataFrame("", index=table.index, columns=table.columns)
    for _, block in scores.groupby(table["scores of"]):
        full = block[table.loc[block.index, "method"] == title_of("full")]
        for row, scores_of_row in block.iterrows():
            difference = (
                (scores_of_row - full.iloc[0]).dropna() if len(full) else pd.Series(dtype=float)
            )
            p_value = wilcoxon(difference)
            if p_value is not None and p_value < DIFFERS:
                marks.loc[row, "method"] = f" {MARK}"
    return marks


def _numbers(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of cells, without their spread."""
    return scores.apply(lambda column: pd.to_numeric(column.str.partition(" ")[0], errors="coerce"))


def trained_parameters(table: pd.DataFrame) -> dict[str, int]:
    """Return trained parameters per method, with the most usual classifier of the tasks.

    If a task has a two-label classifier, that one is counted, as the papers do.
    """
    rows = _with_usual_classifier(table)
    return dict(zip(rows["method"], rows["trainable"], strict=True))


def _shares_of_full(table: pd.DataFrame) -> dict[str, str]:
    """Return each method's share of full's parameters, without the classifier."""
    rows = _with_usual_classifier(table)
    counts = dict(zip(rows["method"], trained_beside_classifier(rows), strict=True))
    full = counts.get("full")
    return {method: f"{n / full:.3%}" if full else EMPTY for method, n in counts.items()}


def _with_usual_classifier(table: pd.DataFrame) -> pd.DataFrame:
    usual = table.groupby("task")["trainable"].max()
    return table[table["task"] == usual[usual == usual.mode().iloc[-1]].index[0]]


def _printed_elsewhere(printed: pd.DataFrame, below: pd.DataFrame, tasks: list[str]) -> set[str]:
    """Return the methods that only other exhibits of the paper print for these tasks.

    An exhibit of nothing but averages is of all tasks.
    """
    of_averages = printed["is_average"].groupby(printed["exhibit"]).transform("all")
    of_tasks = printed["task"].isin(tasks) | of_averages
    return set(printed.loc[of_tasks, "method"]) - set(below["method"])


def _means(averaged: list[str], keys: list[str]) -> dict[str, list[str]]:
    """Return headings to columns: the paper's average, and this run's own if that differs."""
    if not averaged:
        return {}
    means = {f"average of {', '.join(TASKS[task].title for task in averaged)}": averaged}
    return means if set(averaged) <= set(keys) else means | {"average of this run": keys}


def _is_share(printed: object) -> bool:
    """Return true if a paper prints a number of parameters as a share of all."""
    return str(printed).endswith("%")


def _source(model: str, split: str, exhibit: str) -> str:
    parts = [f"paper: {model}", "" if split == "validation" else split, exhibit]
    return ", ".join(part for part in parts if part)
