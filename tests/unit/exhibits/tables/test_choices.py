"""Chosen learning rates beside a paper's."""

import math

from subtune.exhibits.tables import choices
from subtune.papers import printed
from tests.helpers.examples import scored


def test_the_papers_best_learning_rates_are_beside_ours():
    rows = [("rte", "bitfit", 1.0, None, 7e-4, 0, 0.7)]
    table = choices.best_learning_rates(
        scored(*rows), printed.table("bitfit", "table6"), {"rte": "RTE"}, "bitfit"
    )
    assert table.iloc[0].tolist() == ["RTE", "7e-4", "1e-3", "4e-4"]


def test_no_learning_rate_is_best_where_all_diverged():
    rows = [
        ("rte", "bitfit", 1.0, None, 7e-4, 0, math.nan),
        ("cola", "bitfit", 1.0, None, 1e-3, 0, 0.5),
    ]
    tasks = {"rte": "RTE", "cola": "CoLA"}
    printed_rates = printed.table("bitfit", "table6")
    table = choices.best_learning_rates(scored(*rows), printed_rates, tasks, "bitfit")
    assert table["this run: minilm"].tolist() == ["diverged", "1e-3"]
    assert choices.choices(scored(*rows), tasks)["dev score"].tolist() == ["diverged", 0.5]
