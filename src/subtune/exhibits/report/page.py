"""The report: one HTML page with all tables, figures and runs."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markdown_it import MarkdownIt
from markupsafe import Markup

from subtune.analysis.scores import read_scores
from subtune.analysis.verdicts import EQUIVALENCE_MARGINS
from subtune.exhibits.figures.drawing import DOTS_PER_INCH
from subtune.exhibits.report.sparkline import sparkline
from subtune.exhibits.tables.choices import short
from subtune.exhibits.tables.summary import method_of
from subtune.exhibits.tables.writing import EMPTY, cell

JOULES_PER_KILOWATT_HOUR = 3.6e6
MEDIA_TYPES = {
    ".csv": "text/csv",
    ".tex": "text/x-tex",
    ".pdf": "application/pdf",
    ".png": "image/png",
}
# The place of the width in a PNG file, and the pixels of a page per inch.
WIDTH_IN_PNG = slice(16, 20)
PIXELS_PER_INCH = 96
NUMBERED = re.compile(r"(table|figure)(\d+)")


@dataclass(frozen=True)
class Exhibit:
    """A table (CSV, Markdown, LaTeX) or a figure (PNG, PDF) with its title and caption."""

    name: str
    title: str
    caption: str
    files: Sequence[Path]

    @property
    def heading(self) -> str:
        """The title with the paper's number: ``Table 2. Dev scores``."""
        number = NUMBERED.match(self.name)
        return f"{number[1].capitalize()} {number[2]}. {self.title}" if number else self.title


@dataclass(frozen=True)
class Section:
    """An experiment: its name, its paper's citation if it has one, its exhibits in order, its
    scores, its runs' learning curves.

    ``scores`` and ``curves`` are `subtune.analysis.scores.collect`'s and
    `subtune.analysis.curves.learning_curves`' tables.
    """

    name: str
    paper: str
    exhibits: Sequence[Exhibit]
    scores: pd.DataFrame
    curves: pd.DataFrame


def section(
    name: str,
    paper: str,
    exhibits: Sequence[Mapping[str, Any]],
    scores: str,
    curves: str,
) -> Section:
    """Return a section from plain values; ``scores`` and ``curves`` are files."""
    return Section(
        name=name,
        paper=paper,
        exhibits=exhibits_of(exhibits),
        scores=read_scores(scores),
        curves=pd.read_csv(curves, dtype={"run": str}),
    )


def exhibits_of(declared: Sequence[Mapping[str, Any]]) -> list[Exhibit]:
    """Return tables and figures from plain values."""
    return [Exhibit(**{**one, "files": [*map(Path, one["files"])]}) for one in declared]


def page(
    answer: Sequence[Exhibit], sections: Sequence[Section], runs: pd.DataFrame, config: str
) -> str:
    """Return the report as HTML that refers to nothing outside itself.

    Args:
        answer: tables and figures of all experiments together, if there are several.
        sections: one per experiment.
        runs: from `subtune.runs.table_of_runs.table_of_runs`.
        config: the configuration as YAML.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("subtune.exhibits", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "table": lambda path: markdown_table(path.read_text(encoding="utf-8")),
        "data": data_address,
        "width": width_of,
    }
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return environment.get_template("page.html").render(
        answer=answer,
        sections=sections,
        style=Markup(style),
        config=config,
        cost=cost(runs),
        origin=origin(runs),
        seeds=sorted(runs["seed"].unique()),
        runs_of=runs_of,
        margins=EQUIVALENCE_MARGINS,
    )


def markdown_table(text: str) -> Markup:
    """Return a Markdown table as HTML that scrolls by itself."""
    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))


def data_address(path: Path) -> str:
    """Return an address that holds the whole file."""
    content = base64.b64encode(path.read_bytes()).decode()
    return f"data:{MEDIA_TYPES[path.suffix]};base64,{content}"


def width_of(path: Path) -> int:
    """Return a figure's width on the page in pixels, as large as in print."""
    dots = int.from_bytes(path.read_bytes()[WIDTH_IN_PNG])
    return round(dots * PIXELS_PER_INCH / DOTS_PER_INCH)


def runs_of(section: Section) -> list[dict[str, Any]]:
    """Return a section's runs with their learning curves, a row each."""
    curves = {run: curve["score"].tolist() for run, curve in section.curves.groupby("run")}
    deciding = section.scores[section.scores["decides"]]
    return [
        {
            "run": row["run"],
            "model": row["model"],
            "task": row["task"],
            "method": method_of(row),
            "training rows": f"{row['train_rows']:,}",
            "learning rate": short(row["learning_rate"]),
            "seed": row["seed"],
            "score": cell(pd.Series([row["value"]])),
            "curve": ""
            if pd.isna(row["value"])
            else Markup(sparkline(curves[row["run"]], row["best_epoch"])),
        }
        for row in deciding.to_dict("records")
    ]


def cost(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Return the cost of every experiment, and of all; runs that they share count once there."""
    users = runs["experiments"].str.split(" ")
    names = list(dict.fromkeys(name for used in users for name in used))
    rows = [_cost(name, runs[[name in used for used in users]]) for name in names]
    return rows if len(rows) == 1 else [*rows, _cost("all, each once", runs)]


def _cost(name: str, runs: pd.DataFrame) -> dict[str, str]:
    joules = runs["joules"].dropna() if "joules" in runs else pd.Series(dtype=float)
    energy = f"{joules.sum() / JOULES_PER_KILOWATT_HOUR:.3f} kWh" if len(joules) else "not readable"
    return {
        "experiment": name,
        "runs": f"{len(runs):,}",
        "hours": f"{runs['seconds'].sum() / 3600:,.2f}",
        "FLOPs (estimated)": f"{runs['flops'].sum():.2e}",
        "energy": energy,
        "device": _distinct(runs, "device"),
    }


def origin(runs: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the commits and versions that trained the runs, and the times."""
    rows = [("commit of subtune", _distinct(runs, "commit"))]
    versions = [column for column in runs if column.startswith("versions.")]
    rows += [(column.removeprefix("versions."), _distinct(runs, column)) for column in versions]
    if "recorded" in runs:
        times = runs["recorded"].dropna()
        rows.append(("recorded", f"{times.min()} to {times.max()}" if len(times) else EMPTY))
    return rows


def _distinct(runs: pd.DataFrame, column: str) -> str:
    """Return the values of a column, and the number of runs that lack one."""
    values = runs[column] if column in runs else pd.Series(None, index=runs.index, dtype=object)
    names = [str(value) for value in values.dropna().unique()]
    missing = int(values.isna().sum())
    return ", ".join(names + [f"not recorded ({missing} of {len(runs)} runs)"] * (missing > 0))
