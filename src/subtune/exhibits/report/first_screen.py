"""The report's first screen: the answer in one sentence, and a small picture per model and task."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from subtune.analysis.answers import ALL_TASKS, MARGIN
from subtune.analysis.scores import read_scores
from subtune.analysis.summary import METHOD, QUESTION, REFERENCE, title_with_mask
from subtune.exhibits.tables.writing import interval

# Units of a small picture.
WIDTH, HEIGHT, EDGE = 260, 150, 10


def first_screen(exhibits: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the ``sentence`` and the ``pictures`` of the tables `answers` and `summary`.

    None if they are not among the exhibits.
    """
    files = {e["name"]: next((f for f in e["files"] if f.endswith(".csv")), "") for e in exhibits}
    if not {"answers", "summary"} <= files.keys():
        return None
    answers, methods = read_scores(files["answers"]), read_scores(files["summary"])
    answers = answers[answers["task"] != ALL_TASKS]
    titles = dict(answers[["task", "title"]].itertuples(index=False))
    several = methods["model"].nunique() > 1
    groups = methods.dropna(subset="score").groupby(QUESTION, sort=False)
    return {
        "sentence": sentence(answers),
        "pictures": [
            {"title": titles[task] + f", {model}" * several} | picture(rows)
            for (model, task, _), rows in groups
        ],
    }


def sentence(answers: pd.DataFrame) -> str:
    """Return how often a small method is good enough, and which it is."""
    good = answers[answers["is_within"].astype(str) == "True"]
    if good.empty:
        return f"No smaller method is within {MARGIN} of full fine-tuning."
    sure = int(good["surely"].notna().sum()) or "none"
    named = [f"{method} on {', '.join(rows['title'])}" for method, rows in good.groupby("method")]
    return (
        f"On {len(good)} of {len(answers)} tasks a smaller method is within {MARGIN} of full "
        f"fine-tuning, on {sure} of them with 95 % confidence: {'; '.join(named)}."
    )


def picture(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the places of points, of full fine-tuning and of the front in a small picture."""
    full = rows.loc[rows["method"] == REFERENCE, "score"]
    points = rows[(rows["trained"] > 0) & (rows["method"] != REFERENCE)].sort_values("trained")
    scores = [*points["score"], *full]
    low, high = min(scores, default=0), max(scores, default=1)
    sizes = rows.loc[rows["trained"] > 0, "trained"].map(math.log10)

    def x(size: float) -> float:
        span = sizes.max() - sizes.min() or 1
        return round(EDGE + (size - sizes.min()) / span * (WIDTH - 2 * EDGE), 1)

    def y(score: float) -> float:
        return round(HEIGHT - EDGE - (score - low) / (high - low or 1) * (HEIGHT - 2 * EDGE), 1)

    return {
        "full": [y(score) for score in full],
        "range": f"{low:.2f} to {high:.2f}",
        "points": [
            {"x": x(math.log10(row["trained"])), "y": y(row["score"]), "text": _about(row)}
            | {"on_front": row["on_front"]}
            for row in points.to_dict("records")
        ],
    }


def _about(row: Mapping[str, Any]) -> str:
    title = title_with_mask(*(row[name] for name in METHOD))
    text = f"{title}: {row['score']:.4f}, {row['trained']:,} parameters"
    if pd.isna(row["low"]):
        return text
    return f"{text}, {interval(row['low'], row['high'])} to full"
