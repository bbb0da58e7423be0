"""Settings of training for a number of rows and a size of model."""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from subtune.init.defaults import DEFAULTS


class Settings(NamedTuple):
    """Settings of an experiment. ``methods``: each with its learning rates."""

    methods: dict[str, tuple[float, ...]]
    seeds: tuple[int, ...]
    epochs: int
    batch_size: int
    max_length: int

    @property
    def runs(self) -> int:
        """Return the number of runs."""
        return len(self.seeds) * sum(map(len, self.methods.values()))

    def runs_per_job(self, at_once: int) -> int:
        """Return the runs per job that give every job that trains at the same time its share.

        Runs of one job share steps, so more jobs would take longer.
        """
        return -(-self.runs // at_once)


def settings_for(rows: int, max_length: int, hidden_size: int, methods: Iterable[str]) -> Settings:
    """Return settings for a number of training rows and a width of model.

    Args:
        methods: the methods that the model has parameters for.
    """
    size = next(size for size in DEFAULTS.sizes if size.rows is None or rows <= size.rows)
    by_width = {method: DEFAULTS.methods[method].learning_rates for method in methods}
    return Settings(
        methods={method: learning_rates(by, hidden_size) for method, by in by_width.items()},
        seeds=tuple(range(size.seeds)),
        epochs=size.epochs,
        batch_size=size.batch_size,
        max_length=max_length,
    )


def learning_rates(by_width: Mapping[int, tuple[float, ...]], width: int) -> tuple[float, ...]:
    """Return learning rates for a model's width, with two significant digits.

    Between two widths, their logarithms are interpolated. Beyond the outermost they stay.
    """
    widths = sorted(by_width)
    width = min(max(width, widths[0]), widths[-1])
    for narrow, wide in pairwise(widths):
        if width <= wide:
            share = math.log(width / narrow) / math.log(wide / narrow)
            rates = zip(by_width[narrow], by_width[wide], strict=True)
            return tuple(float(f"{a ** (1 - share) * b**share:.1e}") for a, b in rates)
    return by_width[width]
