"""The types of the settings' values."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

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

from subtune.core.errors import format_allowed, shorten
from subtune.core.hub import PAPERS_MODELS
from subtune.data.sources import OFFICIAL_NAMES
from subtune.runs.spec import LEARNING_RATES_BELOW
from subtune.tasks.task_kind import KINDS

ALL_ROWS: Literal["all"] = "all"
# The largest integer that tables and random generators support.
LARGEST = 2**63 - 1
# The learning rates from which `search` starts. The smallest rates suit full fine-tuning of large
# models; the largest suit selections of few parameters.
SEARCHED = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
# Maps the names of the papers' models to their repositories.
HUB_MODELS = {name: model["hub"] for name, model in PAPERS_MODELS.items()}


# Regular expressions for string settings, and their descriptions in error messages.
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$"
METHOD_NAME = r"^\S+( \S+)*$"
LINE = r"^\S.*$"
RESULTS = r"^[^{}~\s][^{}\n]*$"
REPOSITORY = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$"
# Snakemake passes the name of an image to a shell without quoting.
IMAGE = r"^[A-Za-z0-9_./][A-Za-z0-9_./:@+-]*$"
PATTERNS_IN_WORDS = {
    NAME: "a letter or digit, then letters, digits, '_', '.', '+', '-'",
    METHOD_NAME: "words separated by single spaces",
    LINE: "a single line of text",
    RESULTS: "a path without braces, which does not begin with '~'",
    REPOSITORY: f"a repository's name, such as {HUB_MODELS['roberta-base']}",
    IMAGE: "the path or address of an image, with only letters, digits and ./:@+-_",
}


def _require_distinct(values: tuple) -> tuple:
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"found {value!r} twice; list each value once")
    return values


# Constraint for lists that must not contain repeated values.
DISTINCT = AfterValidator(_require_distinct)


def _require_one_of(name: str, allowed: Iterable[str]) -> str:
    if name not in allowed:
        raise ValueError(format_allowed(name, allowed))
    return name


def _parse_row_numbers(given: Any) -> tuple[int | str, ...]:
    """Parse the setting ``train_rows``: one number or a list. None means ``all``."""
    numbers = given if isinstance(given, list | tuple) else [ALL_ROWS if given is None else given]
    # Values from profiles and the command line are always strings.
    numbers = [int(n) if isinstance(n, str) and n.isdecimal() else n for n in numbers]
    for number in numbers:
        if number != ALL_ROWS and not (isinstance(number, int) and number >= 1):
            raise ValueError(f"found {number!r}, expected a positive number of examples or 'all'")
    return tuple(numbers)


def _require_search(given: str) -> str:
    if given != "search":
        raise ValueError(
            f"found {shorten(repr(given))}, expected a list of learning rates or 'search'"
        )
    return given


Name = Annotated[str, Field(pattern=NAME, max_length=64)]
# In files without column names, a column is named by its position, a number.
ColumnName = Annotated[str, Field(coerce_numbers_to_str=True)]
OfficialTask = Annotated[
    str,
    AfterValidator(lambda name: _require_one_of(name, OFFICIAL_NAMES)),
    WithJsonSchema({"enum": [*OFFICIAL_NAMES]}),
]
KindName = Annotated[
    str,
    AfterValidator(lambda name: _require_one_of(name, KINDS)),
    WithJsonSchema({"enum": [*KINDS], "type": "string"}),
]
Count = Annotated[int, Field(ge=1, le=LARGEST)]
FromZero = Annotated[int, Field(ge=0, le=LARGEST)]
# File names contain the name of a method, and have at most 255 characters.
MethodName = Annotated[str, Field(pattern=METHOD_NAME, max_length=200)]
LearningRate = Annotated[float, Field(gt=0, lt=LEARNING_RATES_BELOW)]
# Tags for the alternative forms of a value. Pydantic adds them to the location of an error.
LIST, WORD, SEARCH, COLUMN = "[list]", "[word]", "[search]", "[column]"
ListOfRates = Annotated[tuple[LearningRate, ...], Field(min_length=1), DISTINCT, Tag(LIST)]
SearchOfUsualRates = Annotated[Literal["search"], BeforeValidator(_require_search), Tag(WORD)]


def _join_description_lines(schema: dict[str, Any]) -> None:
    """Put each setting's description on one line. Descriptions are the settings' docstrings."""
    for setting in schema["properties"].values():
        if "description" in setting:
            setting["description"] = " ".join(setting["description"].split())


class Section(BaseModel):
    """A section of the configuration. It is immutable, and rejects unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        json_schema_extra=_join_description_lines,
    )


class SearchOfRates(Section):
    """A learning-rate search."""

    search: Annotated[tuple[LearningRate, ...], DISTINCT] = Field(min_length=2)
    """learning rates from which the search starts. The search uses the first seed, and the learning
    rate that it finds is used for all seeds"""


def _tag_of_rates(given: Any) -> str:
    if isinstance(given, str):
        return WORD
    return SEARCH if isinstance(given, dict | SearchOfRates) else LIST


LearningRates = Annotated[
    ListOfRates | SearchOfUsualRates | Annotated[SearchOfRates, Tag(SEARCH)],
    Discriminator(_tag_of_rates),
]
# Snakemake converts an empty value of a profile to the string None.
LearningRatesOfMethod = Annotated[
    LearningRates | None, BeforeValidator(lambda given: None if given == "None" else given)
]
LearningRatesOfTask = Annotated[
    LearningRates | None,
    Field(description="default learning rates for methods and fractions"),
]
LabelColumnNames = Annotated[
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
