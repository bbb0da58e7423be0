"""Selections of single entries: random entries, masks, and Diff pruning.

A mask selects the fraction of a method's entries with the highest Fisher information, summed over
the tasks of its scope: the run's task (individual), all tasks (global), or all others (cv). Diff
pruning trains differences from the pretrained values, and keeps only a small fraction of the
differences (Guo et al., 2021).
"""

import math
from collections.abc import Collection, Iterable, Mapping
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
    Mask,
    Patterns,
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
        if not 0 < number <= total:
            raise SubtuneError(f"selection: cannot select {number} of {total} entries")
        return number

    def describe_number(self) -> str:
        if self.share is not None:
            return f"{100 * self.share:g}%"
        return f"{self.count or f'as many as in {format_patterns(self.as_many_as)}'}"


def split_by_tensor(indices: np.ndarray, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Split ascending indices of concatenated tensors into the indices of each tensor.

    ``sizes`` has the tensors in their order. Tensors without an index are left out.
    """
    ends = np.cumsum([*sizes.values()])
    parts = np.split(indices, np.searchsorted(indices, ends[:-1]))
    starts = [0, *ends[:-1]]
    every = zip(sizes, parts, starts, strict=True)
    return {name: part - start for name, part, start in every if len(part)}


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
        sizes = {name: math.prod(shapes[name]) for name in match_names(self.within, shapes)}
        total = sum(sizes.values())
        size = self.count_among(total, shapes)
        drawn = np.sort(generator.choice(total, size, replace=False))
        return {name: Indices(flat) for name, flat in split_by_tensor(drawn, sizes).items()}

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

    def select_encoder_entries(self, shapes: Shapes, seed: int, mask: Mask) -> Entries:
        return self.random.entries(shapes, np.random.default_rng(seed))

    def describe(self, names: Collection[str] | None = None) -> str:
        return self.random.describe()


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

    def select_encoder_entries(self, shapes: Shapes, seed: int, mask: Mask) -> Entries:
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


class MaskedEntries(AbstractSelection):
    """The entries of a mask, which are in a file of their own."""

    # This cost is an upper bound: a run costs less if all entries are in vectors.
    usual_work = TrainingCost.ENTRIES

    def select_encoder_entries(self, shapes: Shapes, seed: int, mask: Mask) -> Entries:
        # A mask for several tasks may contain tensors that the model with the head of the run's
        # task lacks.
        return {name: Indices(flat) for name, flat in mask.items() if name in shapes}

    def describe(self, names: Collection[str] | None = None) -> str:
        return f"the entries of mask {self.mask_name}"


class ChosenEntries(MaskedEntries):
    """The entries of a mask.

    ``entries`` is a hash of these entries, so runs with the same entries are equal, whatever the
    rule. In a plan, which is made before the entries are known, it is the id of the mask.
    """

    entries: str

    @property
    def mask_name(self) -> str:
        return self.entries


class Ranked(HashableModel):
    """The first ``ceil(fraction * n)`` of the ``n`` entries in the ranking with id ``ranking``."""

    ranking: str
    fraction: Fraction


class Top(MaskedEntries):
    """The entries of a mask by Fisher information, which are named by what determines them."""

    top: Ranked

    @property
    def mask_name(self) -> str:
        return f"{self.top.ranking} {self.top.fraction}"


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

    def select_encoder_entries(self, shapes: Shapes, seed: int, mask: Mask) -> Entries:
        """Return placeholders for as many entries as the first training selects."""
        sizes = {name: math.prod(shape) for name, shape in shapes.items() if is_pretrained(name)}
        if self.diff_pruning.share * sum(sizes.values()) < 1:
            raise SubtuneError("diff_pruning.share: selects no entry of the model; increase it")
        ends = [int(self.diff_pruning.share * end) for end in accumulate(sizes.values())]
        counts = zip(sizes, ends, [0, *ends], strict=False)
        return {name: Indices(range(end - before)) for name, end, before in counts}

    def describe(self, names: Collection[str] | None = None) -> str:
        return f"the {self.diff_pruning.share:.2%} of all entries that Diff pruning keeps"


def read_entry_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the tensors of a file with Fisher information, gradients or a mask, by name."""
    with convert_errors(f"{path} is damaged; delete it, and run snakemake again"):
        return safetensors.numpy.load_file(path)


def write_mask(path: Path, entries: Mapping[str, np.ndarray], **names: str) -> None:
    """Write the indices of a mask's entries, by tensor, with a hash of them and further names."""
    indices = {name: flat.astype(np.int64) for name, flat in sorted(entries.items())}
    hashes = {name: hash_bytes(flat.tobytes()) for name, flat in indices.items()}
    safetensors.numpy.save_file(indices, path, {"entries": content_id(hashes), **names})


def read_mask_names(path: Path) -> dict[str, str]:
    """Read the names of a mask, of which ``entries`` is a hash, from its file."""
    with (
        convert_errors(f"{path} is damaged; delete it, and run snakemake again"),
        safetensors.safe_open(path, "numpy") as file,
    ):
        return file.metadata() or {}


def read_entry_hashes(paths: Iterable[Path]) -> dict[str, str]:
    """Map the id of each mask to the hash of its entries. Missing files are left out."""
    existing = filter(Path.is_file, paths)
    return {path.stem: read_mask_names(path)["entries"] for path in existing}
