"""The types of the settings' values."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)

from subtune.core.errors import cut, one_of
from subtune.data.sources import OFFICIAL_NAMES
from subtune.runs.spec import LEARNING_RATES_BELOW
from subtune.tasks.task import KINDS

ALL_ROWS: Literal["all"] = "all"
# The largest integer that tables and random generators hold.
LARGEST = 2**63 - 1
# The learning rates of `search`. The smallest suit full fine-tuning of large models, the largest
# suit selections of few parameters.
SEARCHED = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
HUB_MODELS = {
    "bert-base-cased": "google-bert/bert-base-cased",
    "bert-large-cased": "google-bert/bert-large-cased",
    "roberta-base": "FacebookAI/roberta-base",
}


# Patterns of texts, with the words for them in messages.
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$"
METHOD_NAME = r"^\S+( \S+)*$"
LINE = r"^\S.*$"
RESULTS = r"^[^{}~\s][^{}\n]*$"
REPOSITORY = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$"
# Snakemake hands an image's name to a shell as it is.
IMAGE = r"^[A-Za-z0-9_./][A-Za-z0-9_./:@+-]*$"
PATTERNS_IN_WORDS = {
    NAME: "a letter or digit, then letters, digits, '_', '.', '+', '-'",
    METHOD_NAME: "words with one space between two",
    LINE: "text in one line",
    RESULTS: "a path without braces, which does not begin with '~'",
    REPOSITORY: f"a repository's name, such as {HUB_MODELS['roberta-base']}",
    IMAGE: "an image's path or address of letters, digits and ./:@+-_",
}


def _require_distinct(values: tuple) -> tuple:
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"found {value!r} twice, expected each value once")
    return values


# The constraint of lists without repeated values.
DISTINCT = AfterValidator(_require_distinct)


def _one_of(name: str, allowed: Iterable[str]) -> str:
    if name not in allowed:
        raise ValueError(one_of(name, allowed))
    return name


def _parse_row_numbers(given: Any) -> tuple[int | str, ...]:
    """Return a list of numbers of training rows. One number is a list of one, None is `all`."""
    numbers = given if isinstance(given, list | tuple) else [ALL_ROWS if given is None else given]
    # Profiles and the command line give every value as text.
    numbers = [int(n) if isinstance(n, str) and n.isdecimal() else n for n in numbers]
    for number in numbers:
        if number != ALL_ROWS and not (isinstance(number, int) and number >= 1):
            raise ValueError(f"found {number!r}, expected a number of rows from 1, or 'all'")
    return tuple(numbers)


def _search(given: str) -> str:
    if given != "search":
        raise ValueError(f"found {cut(repr(given))}, expected a list of learning rates, or search")
    return given


Name = Annotated[str, Field(pattern=NAME, max_length=64)]
METRICS = tuple(dict.fromkeys(metric for kind in KINDS.values() for metric in kind.metrics))
# A number is the position of a column in files without column names.
ColumnName = Annotated[str, Field(coerce_numbers_to_str=True)]
OfficialTask = Annotated[
    str,
    AfterValidator(lambda name: _one_of(name, OFFICIAL_NAMES)),
    WithJsonSchema({"enum": [*OFFICIAL_NAMES]}),
]
KindName = Annotated[
    str,
    AfterValidator(lambda name: _one_of(name, KINDS)),
    WithJsonSchema({"enum": [*KINDS], "type": "string"}),
]
Metric = Annotated[str, AfterValidator(lambda name: _one_of(name, METRICS))]
Count = Annotated[int, Field(ge=1, le=LARGEST)]
FromZero = Annotated[int, Field(ge=0, le=LARGEST)]
# Names of methods are parts of file names, which have at most 255 letters.
MethodName = Annotated[str, Field(pattern=METHOD_NAME, max_length=200)]
LearningRate = Annotated[float, Field(gt=0, lt=LEARNING_RATES_BELOW)]
# Names for the forms of a value. Pydantic puts them into the path of a mistake.
LIST, WORD, SEARCH, COLUMN = "[list]", "[word]", "[search]", "[column]"
ListOfRates = Annotated[tuple[LearningRate, ...], Field(min_length=1), DISTINCT, Tag(LIST)]
SearchOfUsualRates = Annotated[Literal["search"], BeforeValidator(_search), Tag(WORD)]


def _in_one_line(schema: dict[str, Any]) -> None:
    """Join the lines of the settings' descriptions, which are their docstrings."""
    for setting in schema["properties"].values():
        if "description" in setting:
            setting["description"] = " ".join(setting["description"].split())


class Section(BaseModel):
    """A part of the configuration. It cannot change and refuses unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        json_schema_extra=_in_one_line,
    )


class SearchOfRates(Section):
    """A search among learning rates."""

    search: Annotated[tuple[LearningRate, ...], DISTINCT] = Field(min_length=2)
    """learning rates with which the first seed begins its search for all seeds"""


def _form(given: Any) -> str:
    """Return the form of learning rates that the user meant."""
    if isinstance(given, str):
        return WORD
    return SEARCH if isinstance(given, dict | SearchOfRates) else LIST


LearningRates = Annotated[
    ListOfRates | SearchOfUsualRates | Annotated[SearchOfRates, Tag(SEARCH)], Discriminator(_form)
]
# Snakemake's profiles give an empty value as the text None.
LearningRatesOfMethod = Annotated[
    LearningRates | None, BeforeValidator(lambda given: None if given == "None" else given)
]
LearningRatesOfTask = Annotated[
    LearningRates | None,
    Field(description="for methods and fractions without learning rates of their own"),
]
LabelColumns = Annotated[
    Annotated[ColumnName, Tag(COLUMN)]
    | Annotated[tuple[ColumnName, ...], Field(min_length=2), DISTINCT, Tag(LIST)],
    Discriminator(lambda given: LIST if isinstance(given, list | tuple) else COLUMN),
]
LabelWords = Annotated[tuple[str, ...], Field(min_length=2), DISTINCT]
Names = Annotated[tuple[str, ...], Field(min_length=1), DISTINCT]
_NUMBER_OF_ROWS = {"anyOf": [{"type": "integer", "minimum": 1}, {"const": ALL_ROWS}]}
_NUMBERS_OF_ROWS = {"type": "array", "items": _NUMBER_OF_ROWS, "minItems": 1, "uniqueItems": True}
NumbersOfRows = Annotated[
    tuple[int | Literal["all"], ...],
    BeforeValidator(_parse_row_numbers),
    Field(min_length=1),
    DISTINCT,
    WithJsonSchema({"anyOf": [*_NUMBER_OF_ROWS["anyOf"], _NUMBERS_OF_ROWS, {"type": "null"}]}),
]


class Rate(NamedTuple):
    """A run's learning rate.

    Attributes:
        value: the learning rate.
        searched: the rates with which a search begins, which finds another learning rate for the
            run; empty without a search.
    """

    value: float
    searched: tuple[float, ...] = ()
