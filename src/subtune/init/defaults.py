"""Defaults of first configurations, as in `defaults.yaml`."""

from subtune.core import resources
from subtune.core.content_ids import Value


class Method(Value):
    """A method: what it trains, in words, and its learning rates by a model's width."""

    trains: str
    learning_rates: dict[int, tuple[float, ...]]


class Size(Value):
    """Settings for tables of up to ``rows`` rows, or, if it is None, for all larger ones."""

    rows: int | None
    epochs: int
    batch_size: int


class Shorter(Value):
    """Methods that are left out, and the least share of the usual epochs."""

    without: tuple[str, ...]
    epochs: float


class Model(Value):
    """The encoder to start with: a package, and the same model on the hub."""

    package: str
    hub: str


class _Defaults(Value):
    """The keys of the file. Its comments explain them."""

    label_columns: tuple[str, ...]
    text_words: float
    text_distinct: float
    classes_of_numbers: int
    classes_of_words: int
    fewest_refused: int
    imbalance: float
    missing: tuple[str, ...]
    metrics: dict[str, tuple[str, ...]]
    model: Model
    hidden_sizes: dict[str, int]
    unknown_hidden_size: int
    methods: dict[str, Method]
    schedule: str
    warmup: float
    seeds: int
    sizes: tuple[Size, ...]
    shorter: tuple[Shorter, ...]
    shortest: Shorter
    fewest_rows: int
    whole_texts: float
    window_multiple: int
    longest_window: int
    rows_measured: int


DEFAULTS = _Defaults.model_validate(resources.read_yaml("subtune.init", "defaults.yaml"))
