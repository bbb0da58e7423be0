"""Reports of a training in progress."""

from dataclasses import dataclass

# Why runs train one by one: their model cannot compute them side by side.
ONE_BY_ONE = "one_by_one"
# Why batches have no padding: it changes what their model computes.
WITHOUT_PADDING = "without_padding"


@dataclass(frozen=True)
class Report:
    """A line for the log. With a name it also stands in the records of the runs."""

    text: str
    name: str | None = None

    def __str__(self) -> str:
        return self.text
