"""Selections of single entries: random entries, masks, and Diff pruning.

A mask selects the fraction of a method's entries with the highest Fisher information, summed over
the tasks of its scope: the run's task (individual), all tasks (global), or all others (cv). Diff
pruning trains differences from the pretrained values, and keeps only a small fraction of the
differences (Guo et al., 2021).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
import safetensors.numpy
from pydantic import Discriminator, Field, Tag, model_validator

from subtune.core.errors import SubtuneError, convert_errors
from subtune.core.ids import HashableModel
from subtune.methods.roles import is_pretrained
from subtune.methods.selection import (
    AbstractSelection,
    Entries,
    Indices,
    Patterns,
    Ranks,
    Shapes,
    TrainingCost,
    Whole,
    WholeTensors,
    format_patterns,
    match_names,
)

Fraction = Annotated[float, Field(gt=0, le=1)]
Scope = Literal["individual", "global", "cv"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
# Maps a tensor's name to the Fisher information of each of its entries.
Information = Mapping[str, np.ndarray]


class RandomEntries(HashableModel):
    """Entries that are drawn uniformly, without replacement.

    * ``count``: the number of drawn entries.
    * ``as_many_as``: patterns of tensors. The number of drawn entries is the total number of
      entries in these tensors. Set either ``count`` or ``as_many_as``.
    * ``within``: patterns of the tensors from which entries are drawn.
    """

    as_many_as: Patterns | None = None
    count: int | None = Field(default=None, ge=1)
    within: Patterns = ("**",)

    @model_validator(mode="after")
    def _require_count_or_as_many_as(self) -> Self:
        if (self.as_many_as is None) == (self.count is None):
            raise ValueError("expected exactly one of as_many_as, count")
        return self

    def entries(self, shapes: Shapes, generator: np.random.Generator) -> Entries:
        """Draw entries; raise a `SubtuneError` if there are too few, or a pattern has no match."""
        size = self.count or sum(
            math.prod(shapes[name]) for name in match_names(self.as_many_as or (), shapes)
        )
        names = match_names(self.within, shapes)
        ends = np.cumsum([math.prod(shapes[name]) for name in names])
        if size > ends[-1]:
            raise SubtuneError(
                f"selection: cannot draw {size} entries; `within` matches only {ends[-1]}"
            )
        drawn = np.sort(generator.choice(ends[-1], size, replace=False))
        drawn_per_tensor = np.split(drawn, np.searchsorted(drawn, ends[:-1]))
        starts = np.concatenate([[0], ends[:-1]])
        return {
            name: Indices(flat - start)
            for name, flat, start in zip(names, drawn_per_tensor, starts, strict=True)
            if len(flat)
        }

    def describe(self) -> str:
        size = self.count or f"as many as in {format_patterns(self.as_many_as)}"
        return f"random entries of {format_patterns(self.within)}: {size}"


class Lines(HashableModel):
    """Random columns or rows of matrices.

    One random column of each matrix is drawn. If the matrix has at least as many rows as columns,
    random rows with the same number of entries are drawn instead with a probability of 0.5.

    * ``lines_of``: patterns of the matrices.
    * ``whole``: patterns of the tensors that are trained completely.
    """

    lines_of: Patterns
    whole: Patterns | None = None

    def entries(self, shapes: Shapes, generator: np.random.Generator) -> Entries:
        """Draw columns or rows; raise a `SubtuneError` if a pattern matches no matrix."""
        entries: Entries = dict.fromkeys(match_names(self.whole or (), shapes), Whole())
        for name in match_names(self.lines_of, shapes):
            if len(shapes[name]) != 2:
                raise SubtuneError(
                    f"selection: {name!r} is not a matrix; remove it from `lines_of`"
                )
            rows, columns = shapes[name]
            grid = np.arange(rows * columns).reshape(rows, columns)
            if rows >= columns and generator.random() < 0.5:
                line = grid[generator.choice(rows, rows // columns, replace=False)]
            else:
                line = grid[:, generator.integers(columns)]
            entries[name] = Indices(np.sort(line, axis=None))
        return entries

    def describe(self) -> str:
        whole = format_patterns(self.whole)
        return f"random rows or columns of {format_patterns(self.lines_of)}; {whole}"


def _draw_discriminator(value: Any) -> str:
    keys = value if isinstance(value, Mapping) else getattr(value, "model_fields_set", ())
    return "[lines]" if "lines_of" in keys else "[draw]"


class Random(AbstractSelection):
    """Entries that are drawn at random with the run's seed."""

    usual_work = TrainingCost.ENTRIES
    random: Annotated[
        Annotated[RandomEntries, Tag("[draw]")] | Annotated[Lines, Tag("[lines]")],
        Discriminator(_draw_discriminator),
    ]

    def select_encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        return self.random.entries(shapes, np.random.default_rng(seed))

    def describe(self, names: Collection[str] | None = None) -> str:
        return self.random.describe()


class Ranked(HashableModel):
    """The first ``ceil(fraction * n)`` of the ``n`` entries in the ranking with id ``ranking``."""

    ranking: str
    fraction: Fraction


class Top(AbstractSelection):
    """A mask: the entries at the top of a ranking by Fisher information."""

    # This cost is an upper bound: a run costs less if the ranking contains only entries of vectors.
    usual_work = TrainingCost.ENTRIES
    top: Ranked

    def select_encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        # A ranking for several tasks may contain tensors that the model with the head of the run's
        # task lacks.
        ranks = {name: rank for name, rank in ranks.items() if name in shapes}
        every = np.concatenate([rank.ravel() for rank in ranks.values()])
        # Decimal arithmetic gives 7 for 0.07 and 100 entries; floats give 8.
        kept = math.ceil(Decimal(repr(self.top.fraction)) * len(every))
        last = np.partition(every, kept - 1)[kept - 1]
        indices = {name: np.flatnonzero(rank <= last) for name, rank in ranks.items()}
        return {name: Indices(flat) for name, flat in indices.items() if len(flat)}

    def describe(self, names: Collection[str] | None = None) -> str:
        return f"top {self.top.fraction:g} of ranking {self.top.ranking}"

    @property
    def ranking(self) -> str:
        return self.top.ranking


class DiffPruningSettings(HashableModel):
    """The settings of Diff pruning's first training, which selects entries for the second training.

    * ``share``: the fraction of all entries that the second training trains.
    * ``penalty``: the weight λ of the penalty on the expected number of differences (section 3.1).
    * ``structured``: whether each tensor has a gate of its own, in addition to the gates of its
      entries (section 3.3).
    * ``gate_learning_rate``: the learning rate of the gates. The default is from the published
      code.
    * ``learning_rate``: the learning rate of the differences; None means the run's learning rate.
    """

    share: Fraction
    penalty: float = Field(default=1.25e-7, ge=0)
    structured: bool = True
    gate_learning_rate: float = Field(default=0.1, gt=0)
    learning_rate: float | None = Field(default=None, gt=0)


class DiffPruning(AbstractSelection):
    """A first training selects entries, and a second training trains only these entries."""

    usual_work = TrainingCost.DIFFERENCES
    diff_pruning: DiffPruningSettings

    def select_encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        """Return placeholders for as many entries as the first training selects."""
        sizes = {name: math.prod(shape) for name, shape in shapes.items() if is_pretrained(name)}
        if self.diff_pruning.share * sum(sizes.values()) < 1:
            raise SubtuneError("diff_pruning.share: selects no entry of the model; increase it")
        ends = [int(self.diff_pruning.share * end) for end in accumulate(sizes.values())]
        counts = zip(sizes, ends, [0, *ends], strict=False)
        return {name: Indices(range(end - before)) for name, end, before in counts}

    def describe(self, names: Collection[str] | None = None) -> str:
        return f"the {self.diff_pruning.share:.2%} of all entries that Diff pruning keeps"


def sum_information(per_task: Sequence[Information]) -> dict[str, np.ndarray]:
    """Normalise each task's Fisher information to a sum of 1, and sum over tasks.

    The result is the global information of the LayerNorm paper, section 3.4.
    """
    result: dict[str, np.ndarray] = {}
    for information in per_task:
        total = sum(float(values.sum(dtype=np.float64)) for values in information.values())
        if not (np.isfinite(total) and total > 0):
            raise SubtuneError(f"Fisher information sums to {total}, expected a positive number")
        for name, values in information.items():
            result[name] = result.get(name, 0.0) + values.astype(np.float64) / total
    return result


def rank_entries(information: Information) -> dict[str, np.ndarray]:
    """Rank all entries by Fisher information, from the highest (rank 0). Ties keep their order."""
    flat = np.concatenate([values.ravel() for values in information.values()])
    order = np.argsort(-flat, kind="stable")
    rank = np.empty(len(flat), dtype=np.int32)
    rank[order] = np.arange(len(flat), dtype=np.int32)
    ends = np.cumsum([values.size for values in information.values()])
    return dict(zip(information, np.split(rank, ends[:-1]), strict=True))


def read_entry_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the tensors of a file with Fisher information or a ranking, by name."""
    with convert_errors(f"{path} is damaged; delete it, and run snakemake again"):
        return safetensors.numpy.load_file(path)


def rank_entries_in_files(ranked: WholeTensors, paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """Rank the entries of a selection by Fisher information, given one file per task."""
    per_task = []
    for path in paths:
        entries = read_entry_arrays(path)
        shapes = {name: values.shape for name, values in entries.items()}
        names = sorted(ranked.names(shapes))
        per_task.append({name: entries[name] for name in names})
    return rank_entries(sum_information(per_task))
