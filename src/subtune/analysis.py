"""What the LayerNorm paper computes from run records and Fisher information."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from scipy import stats

from subtune import reported
from subtune.models.components import COMPONENTS, component_of
from subtune.runs import records
from subtune.tasks import Task

SETTING = ["model", "task", "method", "fraction", "scope"]


@dataclass(frozen=True)
class Column:
    """A column of the papers' tables: MNLI is one task and two columns."""

    key: str
    title: str
    task: str
    split: str
    metric: str
    decides: bool


def columns_of(tasks: Sequence[Task]) -> list[Column]:
    """The tables' columns, in the order of the tasks. The first of a task's columns decides."""
    columns = []
    for task in tasks:
        for position, (split, title) in enumerate(task.columns()):
            several = len(task.evaluation) > 1
            key = f"{task.name}_{split.removeprefix('validation_')}" if several else task.name
            columns.append(Column(key, title, task.name, split, task.metrics[0], position == 0))
    return columns


def collect(
    planned: Sequence[Mapping[str, Any]], store: Path, columns: Sequence[Column]
) -> pd.DataFrame:
    """Read the scores of an experiment's runs.

    Args:
        planned: per run ``run``, ``model``, ``task``, ``method``, ``fraction``, ``scope``,
            ``learning_rate``, ``seed``.
        store: where the run records are.
        columns: the tables' columns.

    Returns:
        One row per run and column of its task: what was planned, and ``best_epoch``,
        ``trainable``, ``column``, ``metric``, ``value``, ``decides``.

    Raises:
        SubtuneError: a record is missing or cannot be read.
    """
    rows = []
    for entry in planned:
        record = records.read_scores(store, entry["run"])
        for column in columns:
            if column.task == entry["task"]:
                rows.append(
                    dict(entry)
                    | {"best_epoch": record["best_epoch"], "trainable": record["trainable"]}
                    | {"column": column.key, "metric": column.metric, "decides": column.decides}
                    | {"value": record["scores"][column.split][column.metric]}
                )
    table = pd.DataFrame(rows)
    table["fraction"] = table["fraction"].astype(float).fillna(1.0)
    table["scope"] = table["scope"].fillna("")
    return table


def read_scores(path: str | Path) -> pd.DataFrame:
    """Read a table that `collect` or `choose` made."""
    return pd.read_csv(path, keep_default_na=False, dtype={"run": str, "scope": str})


def choose(scores: pd.DataFrame) -> pd.DataFrame:
    """Keep each setting's best learning rate: the highest mean over seeds, then the smallest.

    A setting is a model, task, method, fraction and scope. Epochs were chosen in training.
    """
    deciding = scores[scores["decides"]]
    means = deciding.groupby([*SETTING, "learning_rate"], as_index=False)["value"].mean()
    means = pd.DataFrame(means).sort_values(["value", "learning_rate"], ascending=[False, True])
    best = means.drop_duplicates(SETTING)[[*SETTING, "learning_rate"]]
    return scores.merge(best, on=[*SETTING, "learning_rate"], how="inner")


def methods_only(chosen: pd.DataFrame) -> pd.DataFrame:
    """Rows of whole methods, without those of fractions."""
    return chosen[chosen["scope"] == ""]


def with_whole_selection(chosen: pd.DataFrame) -> pd.DataFrame:
    """Let every scope's curve end at fraction 1, which is the whole method and has no mask."""
    masked = chosen[chosen["scope"] != ""]
    ends = []
    for (method, scope), own in masked.groupby(["method", "scope"]):
        if not (own["fraction"] == 1).any():
            whole = methods_only(chosen)
            ends.append(whole[whole["method"] == method].assign(scope=scope))
    return pd.concat([chosen, *ends], ignore_index=True)


def kruskal_wallis(first: Sequence[float], second: Sequence[float]) -> float:
    """P-value of the Kruskal–Wallis test between two groups of scores."""
    if len({*first, *second}) == 1:
        return 1.0
    return float(stats.kruskal(first, second).pvalue)


def kruskal_wallis_table(chosen: pd.DataFrame) -> pd.DataFrame:
    """BitFit against LayerNorm: on our scores, and on the paper's Tables 2, 3 and both.

    ``reported`` holds the printed p-value where there is one.
    """
    pair = ("bitfit", "layernorm")
    means = methods_only(chosen).groupby(["method", "column"])["value"].mean()
    rows = []
    if all(method in means.index.get_level_values("method") for method in pair):
        ours = [means.loc[method].tolist() for method in pair]
        rows.append(
            ("this run's table 2 (validation)", *map(len, ours), kruskal_wallis(*ours), None)
        )
    printed = reported.table("kruskal_wallis.csv").set_index("scores")["p_value"]
    exhibits = {
        "table2 (validation)": ["table2"],
        "table3 (test)": ["table3"],
        "table2 + table3": ["table2", "table3"],
    }
    for name, tables in exhibits.items():
        scores = pd.concat([reported.scores("layernorm", table) for table in tables])
        groups = [scores.loc[scores["method"] == m, "value"].tolist() for m in pair]
        rows.append((f"paper's {name}", *map(len, groups), kruskal_wallis(*groups), printed[name]))
    return pd.DataFrame(rows, columns=["scores", "n_bitfit", "n_layernorm", "p_value", "reported"])


def component_ranking(sums: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Components by Fisher information (LayerNorm paper, 2.4 and Table 1).

    The information is averaged within each component over all layers, divided by the task's sum
    over components, and added over tasks.

    Args:
        sums: task name to its ``parameter``, ``size``, ``information``.

    Returns:
        ``rank``, ``component``, ``information``, ``reported_rank``, one row per component.
    """
    total = pd.Series(0.0, index=list(COMPONENTS))
    for table in sums.values():
        component = table["parameter"].map(lambda name: component_of(name).component)
        added = table.groupby(component)[["information", "size"]].sum().loc[list(COMPONENTS)]
        mean = added["information"] / added["size"]
        total += mean / mean.sum()
    total = total.sort_values(ascending=False, kind="stable")
    printed = reported.table("layernorm_table1.csv").set_index("component")["rank"]
    return pd.DataFrame(
        {
            "rank": range(1, len(total) + 1),
            "component": total.index,
            "information": total.to_numpy(),
            "reported_rank": printed.loc[total.index].to_numpy(),
        }
    )


def changes_by_component(changes: Mapping[str, Sequence[pd.DataFrame]]) -> pd.DataFrame:
    """Mean |change| of each component in each layer (LayerNorm paper, Eq. 1).

    Args:
        changes: task name to one table per seed of ``parameter``, ``mean_abs_change``, ``size``.

    Returns:
        ``task``, ``component``, ``layer``, ``change``: the mean over a component's entries.
    """
    parts = []
    for task, tables in changes.items():
        table = pd.concat(tables)
        where = table["parameter"].map(component_of)
        table = table.assign(
            task=task,
            component=[w.component for w in where],
            layer=[w.layer for w in where],
            total=table["mean_abs_change"] * table["size"],
        )
        table = table[table["component"].isin(COMPONENTS) & table["layer"].notna()]
        added = table.groupby(["task", "component", "layer"], as_index=False)[
            ["total", "size"]
        ].sum()
        added["change"] = added["total"] / added["size"]
        parts.append(added[["task", "component", "layer", "change"]])
    return pd.concat(parts, ignore_index=True).astype({"layer": int})


def layernorm_by_layer(sums: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Each layer's share of a task's LayerNorm information (LayerNorm paper, Figures 3 and 4).

    Returns:
        ``task``, ``layer``, ``part`` (weight or bias), ``share``. A task's shares sum to 1; their
        sum over tasks is the global information, given as task ``global``.
    """
    parts = []
    for task, table in sums.items():
        where = table["parameter"].map(component_of)
        table = table.assign(
            task=task, layer=[w.layer for w in where], part=[w.part for w in where]
        )[[w.component == "output.LayerNorm" for w in where]]
        table["share"] = table["information"] / table["information"].sum()
        parts.append(table[["task", "layer", "part", "share"]])
    shares = pd.concat(parts, ignore_index=True).astype({"layer": int})
    total = shares.groupby(["layer", "part"], as_index=False)["share"].sum().assign(task="global")
    return pd.concat([shares, total[shares.columns]], ignore_index=True)
