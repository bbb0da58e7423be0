"""Mini tasks: small English tasks in the form of GLUE's, written by templates with a fixed seed.

Every task has the columns, label words and splits of the GLUE task it stands for. No sentence pair
occurs twice, so that nothing of the dev set was seen in training. One label in twenty is wrong, as
where people disagree, so that no method reaches a perfect score.
"""

import random
from collections.abc import Sequence

from subtune.data.minitasks import cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb

GENERATORS = {
    "qnli": qnli.example,
    "sst2": sst2.example,
    "mnli": mnli.example,
    "cola": cola.example,
    "mrpc": mrpc.example,
    "stsb": stsb.example,
    "rte": rte.example,
    "qqp": qqp.example,
}
TRAIN_ROWS = 200
EVALUATION_ROWS = 100
TEST_ROWS = 40
WRONG_LABELS = 0.05

Row = dict[str, str]


def splits(
    name: str, labels: Sequence[str], evaluation: Sequence[str], test: Sequence[str]
) -> dict[str, list[Row]]:
    """Rows of every split, the same on every machine. Test rows carry no label.

    Args:
        name: which mini task.
        labels: its label words; none for a regression, whose scores vary by themselves.
        evaluation: names of the evaluation splits.
        test: names of the test splits.
    """
    sizes = dict.fromkeys(evaluation, EVALUATION_ROWS) | dict.fromkeys(test, TEST_ROWS)
    seen: set[tuple[str, ...]] = set()
    result = {}
    for split, size in {"train": TRAIN_ROWS, **sizes}.items():
        rng = random.Random(f"{name}/{split}")
        # The mismatched splits, as in MNLI, speak of things that training did not.
        mismatched = split.endswith("mismatched")
        rows: list[Row] = []
        while len(rows) < size:
            row = GENERATORS[name](rng, mismatched)
            texts = tuple(value for key, value in row.items() if key != "label")
            if texts not in seen:
                seen.add(texts)
                if labels and rng.random() < WRONG_LABELS:
                    row["label"] = rng.choice([word for word in labels if word != row["label"]])
                rows.append(row)
        result[split] = [without_label(row) for row in rows] if split in test else rows
    return result


def without_label(row: Row) -> Row:
    return {key: value for key, value in row.items() if key != "label"}
