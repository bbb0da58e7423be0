"""Scores by the fraction of a selection that trains."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.scores import masked, whole_methods, with_whole_selection
from subtune.exhibits.figures.drawing import panels_of
from subtune.exhibits.tables.writing import METRIC_TITLES
from subtune.selections.methods import title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCOPE_TITLES = {"individual": "individual", "global": "global", "cv": "cross-validated"}
# Line styles and markers carry the meaning too, so that the figures read in grey.
SCOPE_STYLES: dict[str, dict[str, Any]] = {
    "individual": {"color": "#0072b2", "linestyle": "-", "marker": "o"},
    "global": {"color": "#d55e00", "linestyle": "--", "marker": "s"},
    "cv": {"color": "#009e73", "linestyle": ":", "marker": "^"},
}
REFERENCE_STYLES: tuple[dict[str, Any], ...] = (
    {"color": "0.45", "linestyle": "-"},
    {"color": "0.0", "linestyle": "-."},
)


def score_by_fraction(
    chosen: pd.DataFrame,
    column_titles: Mapping[str, str],
    scopes: Sequence[str],
    references: Sequence[str],
    style: Mapping[str, Any],
) -> "Figure":
    """Dev score against the trained fraction of LayerNorm, a panel per column.

    Args:
        chosen: the runs of the best learning rates.
        column_titles: column to its title, in the order to show.
        scopes: kinds of mask, a curve each, with a band of one standard deviation over seeds.
        references: at most two methods that are a horizontal line.
        style: ``width`` in inches.
    """
    from matplotlib.ticker import PercentFormatter

    scores = with_whole_selection(chosen)
    columns = [column for column in column_titles if column in set(scores["column"])]
    scopes = [scope for scope in scopes if scope in set(scores["scope"])]
    figure, panels = panels_of(len(columns), style["width"], height_of_panel=0.6)
    for panel, column in zip(panels, columns, strict=False):
        scores_of_column = scores[scores["column"] == column]
        whole = whole_methods(scores_of_column)
        for method, line_style in zip(references, REFERENCE_STYLES, strict=False):
            value = whole.loc[whole["method"] == method, "value"].dropna()
            if len(value):
                panel.axhline(value.mean(), label=title_of(method), **line_style)
        masks = masked(scores_of_column)
        for scope in scopes:
            seeds = masks[masks["scope"] == scope].groupby("fraction")["value"]
            line, spread = seeds.mean(), seeds.std().fillna(0)
            panel.plot(
                line.index, line, markersize=2.5, label=SCOPE_TITLES[scope], **SCOPE_STYLES[scope]
            )
            if spread.any():
                colour = SCOPE_STYLES[scope]["color"]
                panel.fill_between(
                    line.index, line - spread, line + spread, color=colour, alpha=0.2, linewidth=0
                )
        panel.set_title(column_titles[column])
        panel.set_ylabel(METRIC_TITLES[scores_of_column["metric"].iloc[0]], fontsize=7)
        panel.set_xlim(left=0)
        panel.xaxis.set_major_formatter(PercentFormatter(xmax=1))
        panel.grid(color="0.9")
        panel.tick_params(labelsize=6)
    figure.supxlabel("trained share of LayerNorm's parameters")
    handles, labels = panels[0].get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure
