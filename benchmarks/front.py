"""Draw the picture of the README from the summary of the leaderboard: ``docs/front.png``.

    python -m benchmarks.front

A point is filled if the method scores at most 0.02 lower than full fine-tuning with a probability
of at least 95 %.
"""

from pathlib import Path

from subtune.analysis.candidates import SURE
from subtune.analysis.chosen_runs import method_title
from subtune.analysis.tables import read_table
from subtune.exhibits.forest_plot import draw_forest_plot

ROOT = Path(__file__).parents[1]
TITLES = {"sst2": "SST-2", "stsb": "STS-B", "mrpc": "MRPC", "rte": "RTE", "cola": "CoLA"}
# The picture is then at most 1,000 pixels wide.
DOTS_PER_INCH = 144


def main() -> None:
    """Draw the picture. The summary lacks columns that are the same for all methods of a task."""
    methods = read_table(ROOT / "results" / "example" / "leaderboard" / "summary.csv", "summary")
    full = methods[methods["method"] == "full"].set_index("task")
    methods = methods.assign(
        title=methods["method"].map(method_title),
        reference=method_title("full"),
        reference_score=methods["task"].map(full["score"]),
        encoder_size=methods["task"].map(full["trained"]),
        sure=methods["chance"] >= SURE,
        models=methods["model"],
    )
    methods = methods.sort_values("task", key=lambda task: task.map([*TITLES].index), kind="stable")
    draw_forest_plot(methods, TITLES).savefig(ROOT / "docs" / "front.png", dpi=DOTS_PER_INCH)


if __name__ == "__main__":
    main()
