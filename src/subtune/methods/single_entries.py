"""Selections of single entries: random entries, masks, and Diff pruning.

A mask selects the fraction of a method's entries with the highest Fisher information, summed over
the tasks of its scope: the run's task (individual), all tasks (global), or all others (cv). Diff
pruning trains differences from the pretrained values, and keeps only a small fraction of the
differences (Guo et al., 2021).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
import safetensors
import safetensors.numpy
from pydantic import Discriminator, Field, Tag, model_validator

from subtune.core.errors import SubtuneError, convert_errors
from subtune.core.files import hash_bytes
from subtune.core.ids import HashableModel, content_id
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


class EntryCount(HashableModel):
    """A number of entries. Exactly one field must be set.

    * ``count``: the number itself.
    * ``as_many_as``: patterns of tensors, whose entries are counted.
    * ``share``: the number as a fraction of the entries among which some are selected.
    """

    as_many_as: Patterns | None = None
    count: int | None = Field(default=None, ge=1)
    share: Fraction | None = None

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if sum(field is not None for field in (self.as_many_as, self.count, self.share)) != 1:
            raise ValueError("expected exactly one of as_many_as, count, share")
        return self

    def count_among(self, total: int, shapes: Shapes) -> int:
        """Count the entries to select among ``total``; raise a `SubtuneError` if too many."""
        number = self.count or sum(
            math.prod(shapes[name]) for name in match_names(self.as_many_as or (), shapes)
        )
        if self.share is not None:
            number = multiply_exactly(self.share, total)
        if number > total:
            raise SubtuneError(f"selection: cannot select {number} of {total} entries")
        return number

    def describe_number(self) -> str:
        if self.share is not None:
            return f"{100 * self.share:g}%"
        return f"{self.count or f'as many as in {format_patterns(self.as_many_as)}'}"


def multiply_exactly(fraction: float, number: int) -> int:
    """Multiply and round up. Decimal arithmetic gives 7 for 0.07 and 100; floats give 8."""
    return math.ceil(Decimal(repr(fraction)) * number)


class RandomEntries(EntryCount):
    """Entries that are drawn uniformly, without replacement.

    The number of entries is a field of `EntryCount`. ``within`` has patterns of the tensors from
    which entries are drawn.
    """

    within: Patterns = ("**",)

    def entries(self, shapes: Shapes, generator: np.random.Generator) -> Entries:
        """Draw entries; raise a `SubtuneError` if there are too few, or a pattern has no match."""
        names = match_names(self.within, shapes)
        ends = np.cumsum([math.prod(shapes[name]) for name in names])
        size = self.count_among(int(ends[-1]), shapes)
        drawn = np.sort(generator.choice(ends[-1], size, replace=False))
        drawn_per_tensor = np.split(drawn, np.searchsorted(drawn, ends[:-1]))
        starts = np.concatenate([[0], ends[:-1]])
        return {
            name: Indices(flat - start)
            for name, flat, start in zip(names, drawn_per_tensor, starts, strict=True)
            if len(flat)
        }

    def describe(self) -> str:
        return f"random entries of {format_patterns(self.within)}: {self.describe_number()}"


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
        kept = multiply_exactly(self.top.fraction, len(every))
        last = np.partition(every, kept - 1)[kept - 1]
        indices = {name: np.flatnonzero(rank <= last) for name, rank in ranks.items()}
        return {name: Indices(flat) for name, flat in indices.items() if len(flat)}

    def describe(self, names: Collection[str] | None = None) -> str:
        return f"top {self.top.fraction:g} of ranking {self.top.ranking}"

    @property
    def ranking(self) -> str:
        return self.top.ranking


class TopSettings(EntryCount):
    """The entries that a rule scores highest. The number of entries is a field of `EntryCount`.

    * ``by``: the rule (see `subtune.methods.rules`).
    * ``of``: patterns of the tensors whose entries are scored, without those in ``without``.
    * ``scope``: the tasks whose examples are used, as for masks by Fisher information.
    """

    of: Patterns
    without: Patterns | None = None
    by: str = Field(default="fisher", min_length=1)
    scope: Scope = "individual"

    @property
    def tensors(self) -> WholeTensors:
        return WholeTensors(parameters=self.of, without=self.without)


class RankedEntries(AbstractSelection):
    """The entries that a rule scores highest. They are known only after the step `mask`."""

    usual_work = TrainingCost.ENTRIES
    top: TopSettings

    def select_encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        """Return placeholders for as many entries as the rule selects."""
        sizes = {name: math.prod(shapes[name]) for name in self.top.tensors.names(shapes)}
        left, entries = self.top.count_among(sum(sizes.values()), shapes), Entries()
        for name, size in sizes.items():
            entries[name] = Indices(range(min(left, size)))
            left -= min(left, size)
        return entries

    def describe(self, names: Collection[str] | None = None) -> str:
        tensors = self.top.tensors.describe(names)
        return f"the top entries of {tensors} by {self.top.by}: {self.top.describe_number()}"


class ChosenEntries(AbstractSelection):
    """The entries of a mask.

    ``entries`` is a hash of these entries, so runs with the same entries are equal, whatever the
    rule. In a plan, which is made before the entries are known, it is the id of the mask.
    """

    usual_work = TrainingCost.ENTRIES
    entries: str

    def select_encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        return {name: Indices(flat) for name, flat in ranks.items() if name in shapes}

    def describe(self, names: Collection[str] | None = None) -> str:
        return f"the entries {self.entries}"

    @property
    def ranking(self) -> str:
        return self.entries


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


def write_entries(path: Path, entries: Mapping[str, np.ndarray]) -> None:
    """Write the indices of a mask's entries, by tensor, and a hash of them."""
    indices = {name: flat.astype(np.int64) for name, flat in sorted(entries.items())}
    hashes = {name: hash_bytes(flat.tobytes()) for name, flat in indices.items()}
    safetensors.numpy.save_file(indices, path, {"entries": content_id(hashes)})


def read_chosen_entries(paths: Iterable[Path]) -> dict[str, str]:
    """Map the id of each mask to the hash of its entries.

    Missing files, and rankings without chosen entries, are left out.
    """
    chosen = {}
    for path in filter(Path.is_file, paths):
        with (
            convert_errors(f"{path} is damaged; delete it, and run snakemake again"),
            safetensors.safe_open(path, "numpy") as file,
        ):
            if about := file.metadata():
                chosen[path.stem] = about["entries"]
    return chosen


def rank_entries_in_files(ranked: WholeTensors, paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """Rank the entries of a selection by Fisher information, given one file per task."""
    per_task = []
    for path in paths:
        entries = read_entry_arrays(path)
        shapes = {name: values.shape for name, values in entries.items()}
        names = sorted(ranked.names(shapes))
        per_task.append({name: entries[name] for name in names})
    return rank_entries(sum_information(per_task))
