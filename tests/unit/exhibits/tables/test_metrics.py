"""The table of metrics."""

from subtune.exhibits.tables import choices as metrics
from subtune.tasks import TASKS

PAPER_ORDER = [
    TASKS[name] for name in ("qnli", "sst2", "mnli", "cola", "mrpc", "stsb", "rte", "qqp")
]


def test_table_4_names_the_metrics_of_the_paper():
    tasks = [task.model_dump() for task in PAPER_ORDER]
    table = metrics.metrics(tasks).set_index("task")["metric"]
    assert table["MNLI"] == "matched accuracy / mismatched accuracy"
    assert (table["CoLA"], table["MRPC"]) == ("Matthews correlation", "F1")
    assert (table["STS-B"], table["QQP"]) == ("Spearman correlation", "F1")
