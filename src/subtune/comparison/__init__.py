"""The options of comparisons, as used by the `subtune` command and by `subtune.compare`."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import SimpleNamespace
from typing import Annotated, Any, Literal, get_args, get_type_hints

from cyclopts import Parameter

from subtune.core.errors import SubtuneError, format_allowed
from subtune.core.files import read_package_yaml
from subtune.share import DEFAULT_MINUTES

# The comments in `defaults.yaml` explain the attributes of `DEFAULTS`.
DEFAULTS = SimpleNamespace(**read_package_yaml("subtune.comparison", "defaults.yaml"))
Kind = Literal["classification", "multilabel", "regression"]
# In a terminal, several column names are passed as one argument: `--label toxic,insult`.
COLUMN_PARAMETER = Parameter(
    metavar="COLUMN", n_tokens=1, converter=lambda _, tokens: tokens[0].value
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options for the tables and for the models to compare.

    Attributes:
        text: column of the texts; default: guessed
        text2: column of the second text, if texts are pairs; default: no pairs
        label: column of the labels, or several 0/1 columns, such as toxic,insult; default: guessed
        kind: classification, multilabel or regression; default: guessed
        group: column of the author, patient or thread; rows with the same value are in one fold
        model: directory, installed package or repository on the hub; several models are compared
            with each other; default: MiniLM
        encoding: encoding of the files, such as latin-1; default: UTF-8 or UTF-16
        sheet: sheet of Excel files; default: the first
    """

    text: Annotated[str | None, COLUMN_PARAMETER] = None
    text2: Annotated[str | None, COLUMN_PARAMETER] = None
    label: Annotated[str | Sequence[str] | None, COLUMN_PARAMETER] = None
    # In a terminal, `KindOptions` replaces this field.
    kind: Annotated[Kind | None, Parameter(parse=False)] = None
    group: Annotated[str | None, COLUMN_PARAMETER] = None
    # In a terminal, the option is repeated for each model: `--model A --model B`.
    model: list[str] | None = None
    encoding: str | None = None
    sheet: str | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options(TableOptions):
    """Options of `compare` and `init`, in addition to `TableOptions`.

    Attributes:
        predictions: file or column with the predictions of another system, such as an LLM, for the
            rows on which methods are scored; several systems are allowed
        minutes: time limit for the whole comparison; default: 10
        margin: largest acceptable drop in score relative to full fine-tuning; default: 0.02 or, if
            a comparison is continued, its margin
        baselines: further baselines, by names of your choice: unfitted estimators of scikit-learn,
            which are fitted to embeddings, or settings as in a configuration; Python only
    """

    predictions: list[str] | None = None
    minutes: float = DEFAULT_MINUTES
    margin: float | None = None
    baselines: Annotated[Mapping[str, Any] | None, Parameter(parse=False)] = None

    def __post_init__(self) -> None:
        if self.kind not in (None, *get_args(Kind)):
            raise SubtuneError(f"kind: {format_allowed(self.kind, get_args(Kind))}")
        expected = {
            "minutes": (math.inf, "a positive number such as 10 (or 100000 for no limit)"),
            "margin": (1, "a number between 0 and 1, such as 0.02"),
        }
        for name, (upper_bound, description) in expected.items():
            found = getattr(self, name)
            is_number = isinstance(found, Real)
            is_default = found is None and name == "margin"
            if not (is_default or (is_number and 0 < found < upper_bound)):
                given = f"{found:g}" if is_number else repr(found)
                raise SubtuneError(f"--{name}: found {given}, expected {description}")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class KindOptions:
    """The options `--classes`, `--multilabel` and `--regression` of the terminal.

    Attributes:
        classes: each text has exactly one class; default: guessed
        multilabel: each text has any number of labels; default: guessed
        regression: the label of each text is a number; default: guessed
    """

    classes: bool = False
    multilabel: bool = False
    regression: bool = False

    @property
    def kind(self) -> Kind | None:
        """The kind of task that the user chose, or None. Several kinds raise a `SubtuneError`."""
        kinds = zip(vars(self), get_args(Kind), strict=True)
        named = [(option, kind) for option, kind in kinds if getattr(self, option)]
        if len(named) > 1:
            first, *others = (f"--{option}" for option, _ in named)
            raise SubtuneError(f"{first}: not allowed with {' and '.join(others)}; choose one")
        return named[0][1] if named else None


def with_options(function: Callable) -> Any:
    """Replace ``**options`` in a function's signature, and ``{options}`` in its docstring."""
    signature = inspect.signature(function)
    *own, _ = signature.parameters.values()
    hints = get_type_hints(Options)
    shared = [
        option.replace(annotation=hints[name])
        for name, option in inspect.signature(Options).parameters.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    descriptions = [
        str(each.__doc__).split("Attributes:\n")[1].strip() for each in (TableOptions, Options)
    ]
    function.__doc__ = str(function.__doc__).replace("{options}", "\n        ".join(descriptions))
    return function
