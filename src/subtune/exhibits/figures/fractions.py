"""Scores by the fraction of a selection that trains."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.scores import masked, whole_methods, with_whole_selection
from subtune.exhibits.figures.drawing import legend_above, name_panel, panels_of, plot_with_band
from subtune.selections.methods import title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Line styles and markers carry the meaning too, so that the figures read in grey.
LOOKS = {
    "individual": ("individual", "#0072b2", "-", "o"),
    "global": ("global", "#d55e00", "--", "s"),
    "cv": ("cross-validated", "#009e73", ":", "^"),
}
SCOPE_STYLES: dict[str, dict[str, Any]] = {
    scope: {"label": title, "color": colour, "linestyle": line, "marker": marker, "markersize": 2.5}
    for scope, (title, colour, line, marker) in LOOKS.items()
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
    """Draw the dev score against the trained fraction of LayerNorm, a panel per column.

    Args:
        chosen: the runs of the best learning rates.
        column_titles: column to its title, in the order of the panels.
        scopes: kinds of mask; each has a curve, with a band of one standard deviation over seeds.
        references: at most two methods, each a horizontal line.
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
            plot_with_band(panel, seeds.mean(), seeds.std(), SCOPE_STYLES[scope])
        name_panel(panel, column_titles[column], scores_of_column["metric"].iloc[0])
        panel.set_xlim(left=0)
        panel.xaxis.set_major_formatter(PercentFormatter(xmax=1))
    figure.supxlabel("trained share of LayerNorm's parameters")
    curves_and_lines = len(panels[0].get_legend_handles_labels()[1])
    if curves_and_lines > 1:
        legend_above(figure, panels[0], columns=curves_and_lines)
    return figure
