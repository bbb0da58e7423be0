"""A comparison of methods on a user's rows: its options, each declared here and only here.

The `subtune` command and Python's `compare` take their names, types, defaults and texts from here.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from types import SimpleNamespace
from typing import Annotated, Any, Literal, get_args, get_type_hints

from cyclopts import Parameter

from subtune.core.errors import SubtuneError, one_of
from subtune.core.files import read_package_yaml

# The keys of `defaults.yaml`, where comments explain them.
DEFAULTS = SimpleNamespace(**read_package_yaml("subtune.comparison", "defaults.yaml"))
Kind = Literal["classification", "multilabel", "regression"]
# In a terminal, the names of several columns are one word.
Column = Parameter(metavar="COLUMN", n_tokens=1, converter=lambda _, tokens: tokens[0].value)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The options about the tables and the model. Options that are None are guessed.

    Attributes:
        text: column of the text; default: a guess
        text2: column of the second text of a pair
        label: column of the label, or several of 0 and 1 as in toxic,insult; default: a guess
        kind: classification, multilabel or regression; default: a guess
        group: column of the author, patient or thread; rows of one stay in one fold
        model: a directory, a package, or a repository on the hub; several are compared; default:
            MiniLM
        encoding: the files' encoding, such as latin-1; default: UTF-8 or -16
        sheet: sheet of Excel files; default: the first
    """

    text: Annotated[str | None, Column] = None
    text2: Annotated[str | None, Column] = None
    label: Annotated[str | Sequence[str] | None, Column] = None
    # The command has an option for each kind.
    kind: Annotated[Kind | None, Parameter(parse=False)] = None
    group: Annotated[str | None, Column] = None
    # In a terminal, each of several has its own option: `--model A --model B`.
    model: list[str] | None = None
    encoding: str | None = None
    sheet: str | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options(TableOptions):
    """The options of `compare` and `init` beside the tables.

    Attributes:
        predictions: a file or column of predictions, such as an LLM's, for the rows that give the
            scores; several are compared
        minutes: time for everything; default: 10
        margin: loss of score against full fine-tuning that you can afford; default: 0.02
    """

    predictions: list[str] | None = None
    minutes: float = 10
    margin: float = 0.02

    def __post_init__(self) -> None:
        """Refuse an unknown kind, and a number that is out of its range."""
        if self.kind not in (None, *get_args(Kind)):
            raise SubtuneError(f"kind: {one_of(self.kind, get_args(Kind))}")
        expected = {
            "minutes": (math.inf, "a positive number such as 10; 100000 is as good as no limit"),
            "margin": (1, "a score between 0 and 1, such as 0.02"),
        }
        for name, (below, what) in expected.items():
            found = getattr(self, name)
            is_number = isinstance(found, Real)
            if not (is_number and 0 < found < below):
                given = f"{found:g}" if is_number else repr(found)
                raise SubtuneError(f"--{name}: found {given}, expected {what}")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class KindOptions:
    """An option of the terminal for each kind of task.

    Attributes:
        classes: each text has one class; default: a guess
        multilabel: each text has any number of labels; default: a guess
        regression: each text has a number; default: a guess
    """

    classes: bool = False
    multilabel: bool = False
    regression: bool = False

    @property
    def kind(self) -> Kind | None:
        """The kind that is named, if one is.

        Raises:
            SubtuneError: several kinds are named.
        """
        given: list[tuple[str, bool]] = [*vars(self).items()]
        named = [
            (option, kind)
            for (option, is_named), kind in zip(given, get_args(Kind), strict=True)
            if is_named
        ]
        if len(named) > 1:
            options = " and ".join(f"--{option}" for option, _ in named)
            raise SubtuneError(f"found {options}, expected one of them")
        return named[0][1] if named else None


def with_options(function: Callable) -> Any:
    """Give a function's ``**options`` the names, types, defaults and texts of `Options`.

    In the docstring, ``{options}`` becomes a line for each.
    """
    signature = inspect.signature(function)
    *own, _ = signature.parameters.values()
    hints = get_type_hints(Options)
    shared = [
        option.replace(annotation=hints[name])
        for name, option in inspect.signature(Options).parameters.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    texts = [
        str(each.__doc__).split("Attributes:\n")[1].strip() for each in (TableOptions, Options)
    ]
    described = "\n        ".join(texts)
    function.__doc__ = str(function.__doc__).replace("{options}", described)
    return function
