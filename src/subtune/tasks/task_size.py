"""The number of rows and tokens of a task."""

import math

from pydantic import BaseModel, ConfigDict


class TaskSize(BaseModel):
    """Rows of the training split, of all evaluation and of all test splits; tokens of a row.

    ``tokens`` counts those of a training row, and is often an estimate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train_rows: int
    evaluation_rows: int
    test_rows: int
    tokens: float

    @property
    def all_rows(self) -> int:
        """Rows of all splits."""
        return self.train_rows + self.evaluation_rows + self.test_rows

    def rows_within(self, limit: int | None) -> int:
        """Return the number of training rows, at most ``limit``."""
        return min(limit or self.train_rows, self.train_rows)

    def examples_of_a_row(self, max_length: int, doc_stride: int | None) -> int:
        """Return how many examples a row of usual length makes, where its parts overlap."""
        if doc_stride is None:
            return 1
        return 1 + math.ceil(max(0, self.tokens - max_length) / min(doc_stride, max_length))


# The size of a task whose entry states none: as large as usual ones.
USUAL_SIZE = TaskSize(train_rows=100_000, evaluation_rows=10_000, test_rows=10_000, tokens=50)
