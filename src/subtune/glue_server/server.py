"""The files that the GLUE server takes: their names, numbers of rows and labels."""

from dataclasses import dataclass

from subtune.tasks import TASKS, Task

HEADER = ("index", "prediction")
# Rows of the published test splits.
ROWS = {
    "CoLA.tsv": 1063,
    "SST-2.tsv": 1821,
    "MRPC.tsv": 1725,
    "STS-B.tsv": 1379,
    "MNLI-m.tsv": 9796,
    "MNLI-mm.tsv": 9847,
    "QNLI.tsv": 5463,
    "RTE.tsv": 3000,
    "WNLI.tsv": 146,
    "QQP.tsv": 390965,
    "AX.tsv": 1104,
}
# The server takes these tasks' labels as words, and the other tasks' as numbers.
IN_WORDS = ("mnli", "qnli", "rte")


@dataclass(frozen=True)
class ServerFile:
    """One file of a submission: a row per test example, numbered from 0.

    ``labels`` stand in the order of their numbers. Without labels a prediction is a number in
    ``score_range``.
    """

    name: str
    task: str
    split: str
    rows: int
    labels: tuple[str, ...] | None
    score_range: tuple[float, float] | None

    @property
    def constant(self) -> str:
        """The prediction for every row if no run can predict them."""
        return self.labels[0] if self.labels else f"{(self.score_range or (0.0, 0.0))[0]:.3f}"


def _files_of(task: Task) -> list[ServerFile]:
    labels = task.labels
    if labels and task.name not in IN_WORDS:
        labels = tuple(str(number) for number in range(len(labels)))
    return [
        ServerFile(name, task.name, split, ROWS[name], labels, task.score_range)
        for name, split in zip(task.submission, task.test, strict=True)
    ]


_BY_NAME = {
    file.name: file for task in TASKS.values() if task.submission for file in _files_of(task)
}
FILES: dict[str, ServerFile] = {name: _BY_NAME[name] for name in ROWS}
