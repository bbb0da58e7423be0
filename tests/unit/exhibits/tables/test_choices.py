"""Metrics and chosen learning rates, beside a paper's."""

import math

from subtune.exhibits.tables import choices
from subtune.papers import printed
from subtune.tasks import TASKS
from tests.helpers.examples import scored


def test_the_papers_best_learning_rates_are_beside_ours_unless_all_diverged():
    rows = [
        ("rte", "bitfit", 1.0, None, 7e-4, 0, math.nan),
        ("cola", "bitfit", 1.0, None, 1e-3, 0, 0.5),
    ]
    tasks = {"rte": "RTE", "cola": "CoLA"}
    printed_rates = printed.table("bitfit", "table6")
    table = choices.best_learning_rates(scored(*rows), printed_rates, tasks, "bitfit")
    assert table.iloc[0].tolist() == ["RTE", "diverged", "1e-3", "4e-4"]
    assert table["this run: minilm"].tolist() == ["diverged", "1e-3"]
    assert choices.choices(scored(*rows), tasks)["dev score"].tolist() == ["diverged", 0.5]


def test_a_chosen_learning_rate_at_the_edge_has_a_remark_and_none_is_needed_without_a_rate():
    rows = [
        ("rte", "bitfit", 1.0, None, 1e-3, 0, 0.5),
        ("cola", "frozen", 1, None, math.nan, 0, 0.5),
    ]
    table = choices.choices(scored(*rows).assign(at_edge=[True, False]), {"rte": "", "cola": ""})
    assert table["remarks"].fillna("").tolist() == ["at the edge", ""]
    assert choices.short(math.nan) is None


def test_table_4_names_the_metrics_of_the_paper():
    tasks = [TASKS[name].model_dump() for name in ("mnli", "cola", "mrpc", "stsb", "qqp")]
    table = choices.metrics(tasks).set_index("task")["metric"]
    assert table["MNLI"] == "matched accuracy / mismatched accuracy"
    assert (table["CoLA"], table["MRPC"]) == ("Matthews correlation", "F1")
    assert (table["STS-B"], table["QQP"]) == ("Spearman correlation", "F1")
