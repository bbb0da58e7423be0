"""Render the report: one HTML page with the answer, all tables and figures, and all runs."""

import base64
import mimetypes
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markdown_it import MarkdownIt
from markupsafe import Markup

from subtune.analysis.answer import ALL_TASKS
from subtune.analysis.candidates import sort_methods
from subtune.analysis.chosen_runs import title_with_mask
from subtune.analysis.claims import EQUIVALENCE_MARGINS
from subtune.analysis.tables import read_table
from subtune.exhibits.answer_tables import list_answers, loss_table
from subtune.exhibits.output import DIVERGED, DOTS_PER_INCH, EMPTY, format_number, format_rate

PIXELS_PER_INCH = 96
# The size of a learning curve in a table row, in pixels.
CURVE_WIDTH, CURVE_HEIGHT, CURVE_PADDING = 96, 24, 3
MARKDOWN_PARSER = MarkdownIt("commonmark", {"html": False}).enable("table")
NUMBERED = re.compile(r"(table|figure)(\d+)")


def render_page(
    answer: Sequence[Mapping[str, Any]],
    sections: Sequence[Mapping[str, Any]],
    runs: pd.DataFrame,
    config: str,
    has_mini_tasks: bool = False,
) -> str:
    """Render the report as a self-contained HTML page.

    Args:
        answer: the tables and figures of all experiments together; empty if there is only one
            experiment. Each is a mapping with ``name``, ``title``, ``caption`` and ``files``.
        sections: one mapping for each experiment, with these keys: ``name``; ``paper`` (the
            citation of its paper, or an empty string); ``exhibits`` (its tables and figures, in the
            form of ``answer``); ``scores`` and ``curves`` (the paths of the tables ``scores`` and
            ``learning_curves``).
        runs: the result of `subtune.analysis.tables.table_of_runs`.
        config: the configuration as YAML.
        has_mini_tasks: whether mini tasks replace the paper's tasks.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("subtune.exhibits", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "path": Path,
        "heading": format_heading,
        "table": lambda text: Markup(MARKDOWN_PARSER.render(text)),
        "data": data_url,
        "inline": lambda text: Markup(MARKDOWN_PARSER.renderInline(text)),
    }
    first = build_report_header(answer or sections[0]["exhibits"])
    replaced = first["exhibits"] if first else []
    answer = [exhibit for exhibit in answer if exhibit not in replaced]
    with_runs = []
    for section in sections:
        curves = read_table(section["curves"])
        rows = run_rows(read_table(section["scores"]), curves)
        shown = [exhibit for exhibit in section["exhibits"] if exhibit not in replaced]
        number = curves["run"].nunique()
        with_runs.append({**section, "exhibits": shown, "runs": rows, "number_of_curves": number})
    return environment.get_template("page.html").render(
        answer=answer,
        sections=with_runs,
        first=first,
        config=config,
        has_mini_tasks=has_mini_tasks,
        cost=cost_rows(runs),
        origin=version_rows(runs),
        seeds=sorted(runs["seed"].unique()),
        margins=EQUIVALENCE_MARGINS,
        # With this density, figures have the same width on the page as in print.
        dots_per_pixel=DOTS_PER_INCH / PIXELS_PER_INCH,
    )


def format_heading(exhibit: Mapping[str, Any]) -> str:
    """Return the title with the number of the table or figure, such as ``Table 2. Dev scores``."""
    found = NUMBERED.match(exhibit["name"])
    title = exhibit["title"]
    return f"{found[1].capitalize()} {found[2]}. {title}" if found else title


def data_url(path: Path) -> str:
    """Return a data URL that contains the whole file."""
    content = base64.b64encode(path.read_bytes()).decode()
    return f"data:{mimetypes.guess_type(path)[0]};base64,{content}"


def run_rows(scores: pd.DataFrame, curves: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of the table of runs, each with a learning curve as SVG."""
    curve_of = {run: curve["score"].tolist() for run, curve in curves.groupby("run")}
    rows = []
    for row in scores[scores["decides"]].to_dict("records"):
        diverged = pd.isna(row["value"])
        curve = "" if diverged else Markup(draw_sparkline(curve_of[row["run"]], row["best_epoch"]))
        rows.append(
            {
                **{name: row[name] for name in ("run", "model", "task")},
                "method": title_with_mask(row),
                "training rows": f"{row['train_rows']:,}",
                "learning rate": format_rate(row["learning_rate"]),
                "seed": row["seed"],
                "score": format_number(row["value"], missing=DIVERGED),
                "curve": curve,
            }
        )
    return rows


def draw_sparkline(scores: Sequence[float], best_epoch: int) -> str:
    """Draw the score of each epoch as a small SVG image, with a dot at the best epoch."""
    low, high = min(scores), max(scores)
    across = (CURVE_WIDTH - 2 * CURVE_PADDING) / max(1, len(scores) - 1)
    up = CURVE_HEIGHT - 2 * CURVE_PADDING
    heights = [(score - low) / (high - low) if high > low else 0.5 for score in scores]
    points = [
        (CURVE_PADDING + epoch * across, CURVE_HEIGHT - CURVE_PADDING - up * height)
        for epoch, height in enumerate(heights)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[best_epoch - 1]
    text = f"{low:.4f} to {high:.4f} in {len(scores)} epochs, best in epoch {best_epoch}"
    return (
        f'<svg class="curve" viewBox="0 0 {CURVE_WIDTH} {CURVE_HEIGHT}" role="img" '
        f'aria-label="{text}">'
        f'<polyline points="{line}"/><circle cx="{x:.1f}" cy="{y:.1f}" r="2"/></svg>'
    )


def cost_rows(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Return a row of costs for each experiment, and a total that counts shared runs once."""
    each = runs.assign(experiments=runs["experiments"].str.split(" ")).explode("experiments")
    parts = {str(name): part for name, part in each.groupby("experiments", sort=False)}
    if len(parts) > 1:
        parts["all, each once"] = runs
    return [
        {
            "experiment": name,
            "runs": f"{len(part):,}",
            "hours": f"{part['seconds'].sum() / 3600:,.2f}",
            "FLOPs (estimated)": f"{part['flops'].sum():.2e}",
            "device": _list_distinct(part, "device"),
        }
        for name, part in parts.items()
    ]


def version_rows(runs: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the commits, package versions and times of the runs, as pairs of title and text."""
    columns = {"commit": "commit of subtune"}
    columns |= {c: c.removeprefix("versions.") for c in runs if c.startswith("versions.")}
    rows = [(title, _list_distinct(runs, column)) for column, title in columns.items()]
    times = runs["recorded"].dropna()
    return [*rows, ("recorded", f"{times.min()} to {times.max()}" if len(times) else EMPTY)]


def _list_distinct(runs: pd.DataFrame, column: str) -> str:
    """List the distinct values of a column, and the number of runs without a value."""
    names = [str(value) for value in runs[column].dropna().unique()]
    missing = int(runs[column].isna().sum())
    if missing:
        names.append(f"not recorded ({missing} of {len(runs)} runs)")
    return ", ".join(names)


def build_report_header(exhibits: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the top of the page, or None if there are no ``answers`` or no ``summary``.

    The keys are ``answers`` (pairs of an answer and its next step); ``table`` and ``marks`` (the
    table of losses and its footnotes, empty if there are several answers); ``exhibits`` (the tables
    and figures that are therefore not shown again below).
    """
    files = {e["name"]: next((f for f in e["files"] if f.endswith(".csv")), "") for e in exhibits}
    if not {"answers", "summary"} <= files.keys():
        return None
    answers = read_table(files["answers"], "answers")
    table, marks = loss_table(sort_methods(read_table(files["summary"], "summary")))
    is_single = len(answers) == 1
    return {
        "answers": list_answers(answers[answers["task"] != ALL_TASKS]),
        "table": table.to_markdown(index=False, disable_numparse=True) if is_single else "",
        "marks": marks if is_single else "",
        "exhibits": [e for e in exhibits if e["name"] in ("front", "answers")[: 1 + is_single]],
    }
