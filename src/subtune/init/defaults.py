"""What a first configuration says and is guessed by, as `defaults.yaml` has it."""

from subtune.core import resources
from subtune.core.content_ids import Value


class Method(Value):
    """What a method trains, in words, and its learning rates by a model's width."""

    trains: str
    learning_rates: dict[int, tuple[float, ...]]


class Size(Value):
    """How to train on tables of up to ``rows`` rows; without a number, on all larger ones."""

    rows: int | None
    epochs: int
    batch_size: int
    seeds: int


class Model(Value):
    """The encoder to start with: a package, or the same on the hub."""

    package: str
    hub: str


class _Defaults(Value):
    """The file's keys; its comments say why."""

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
    sizes: tuple[Size, ...]
    whole_texts: float
    window_multiple: int
    longest_window: int
    rows_measured: int
    long_hours: float


DEFAULTS = _Defaults.model_validate(resources.read_yaml("subtune.init", "defaults.yaml"))
