"""What was chosen, beside what a paper chose."""

from subtune.papers import printed
from subtune.tables import choices
from subtune.tasks import TASKS
from tests.helpers.examples import scored


def test_the_papers_best_learning_rates_are_beside_ours():
    rows = [("rte", "bitfit", 1.0, None, 7e-4, 0, 0.7)]
    table = choices.best_learning_rates(
        scored(*rows), printed.table("bitfit", "table6"), [TASKS["rte"]], "bitfit"
    )
    assert table.iloc[0].tolist() == ["RTE", "7e-4", "1e-3", "4e-4"]
