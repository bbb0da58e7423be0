"""The typed model of ``config.yaml``."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple, Self
from unicodedata import category

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from subtune import papers
from subtune.core.errors import cut, one_of
from subtune.data.official import RELEASES
from subtune.papers.common import figure_styles, reads_information
from subtune.selections import NamedSelection
from subtune.selections.methods import MASKED_METHOD, named
from subtune.selections.ranked import Fraction
from subtune.selections.rankings import SCOPES, Scope
from subtune.tasks import TASKS, Task
from subtune.tasks.fields import KindName, kind_of_unnamed
from subtune.tasks.kinds import KINDS

ALL_ROWS: Literal["all"] = "all"
# Names on the hub, and of images of containers.
REPOSITORY = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
IMAGE = re.compile(r"[\w./][\w./:@+-]*")
# Of values of its wildcards Snakemake refuses these.
PERIODIC = re.compile(r"(.+)\1{19}$")
# With which text begins that a spreadsheet computes.
FORMULAS = ("=", "+", "-", "@")
# Of whole numbers, as tables and random generators hold them.
LARGEST = 2**63 - 1
# From what moves the whole of a large model to what moves a few numbers of a small one.
SEARCHED = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
HUB_MODELS = {
    "bert-base-cased": "google-bert/bert-base-cased",
    "bert-large-cased": "google-bert/bert-large-cased",
    "roberta-base": "FacebookAI/roberta-base",
}


def _distinct(values: tuple) -> tuple:
    seen = set()
    for value in values:
        if value in seen:
            raise ValueError(f"found {value!r} twice, expected each value once")
        seen.add(value)
    return values


def _trimmed(words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        if word != word.strip():
            raise ValueError(f"found {word!r}, expected no space around a label")
    return words


def _in_one_line(title: str) -> str:
    # Control characters and ends of lines and paragraphs, which no table or terminal should meet.
    if not title.strip() or any(category(letter) in ("Cc", "Zl", "Zp") for letter in title):
        raise ValueError(f"found {cut(title)!r}, expected text in one line")
    return title


def _in_a_table(number: int) -> int:
    if number > LARGEST:
        raise ValueError(f"found a number of {len(str(number))} digits, expected at most {LARGEST}")
    return number


def _not_periodic(name: str) -> str:
    if PERIODIC.search(name):
        raise ValueError(
            f"found {cut(name)!r}, expected no twenty times the same at its end, which Snakemake "
            "takes for a rule without end"
        )
    return name


def _no_formula(text: str) -> str:
    if text[:1] in FORMULAS:
        raise ValueError(
            f"found {cut(text)!r}, expected another first letter: spreadsheets, in which tables "
            "are opened, take it for a formula"
        )
    return text


def _no_mathematics(title: str) -> str:
    if title.count("$") > 1:
        raise ValueError(
            f"found {cut(title)!r}, expected one '$' at most: figures set what stands between two "
            "as mathematics"
        )
    return title


def _results(path: str) -> str:
    if set(path) & set("{}"):
        raise ValueError(f"found {cut(path)!r}, expected no braces, which Snakemake fills in")
    if path.startswith("~"):
        raise ValueError(f"found {cut(path)!r}, expected the home directory in full")
    return path


def _repository(name: str) -> str:
    if not REPOSITORY.fullmatch(name):
        raise ValueError(
            f"found {cut(name)!r}, expected a repository's name as in its address, such as "
            f"{next(iter(HUB_MODELS.values()))}"
        )
    return name


def _image(name: str) -> str:
    if not IMAGE.fullmatch(name):
        raise ValueError(
            f"found {cut(name)!r}, expected an image's path or address of letters, digits and "
            "./:@+-_, which Snakemake hands to a shell as it is"
        )
    return name


def _one_of(name: str, allowed: Iterable[str]) -> str:
    if name not in allowed:
        raise ValueError(one_of(name, allowed))
    return name


def _numbers_of_rows(given: Any) -> tuple[int | str, ...]:
    """Numbers of training rows; one alone is the only one, and none stands for all rows."""
    numbers = given if isinstance(given, list | tuple) else [ALL_ROWS if given is None else given]
    if not numbers:
        raise ValueError("found an empty list, expected numbers of rows, or 'all'")
    # In profiles and on the command line every value is text.
    numbers = [int(n) if isinstance(n, str) and n.isdecimal() else n for n in numbers]
    for number in numbers:
        if number != ALL_ROWS and not (isinstance(number, int) and number >= 1):
            raise ValueError(f"found {number!r}, expected a number of rows from 1, or 'all'")
    return _distinct(tuple(numbers))


def _search(given: str) -> str:
    if given != "search":
        raise ValueError(f"found {cut(repr(given))}, expected a list of learning rates, or search")
    return given


Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$", max_length=64),
    AfterValidator(_not_periodic),
]
Paper = Annotated[
    str,
    AfterValidator(lambda name: _one_of(name, papers.all_papers())),
    Field(json_schema_extra={"enum": [*papers.all_papers()]}),
]
FigureStyle = Annotated[
    str,
    AfterValidator(lambda name: _one_of(name, figure_styles(papers.all_papers().values()))),
    WithJsonSchema({"enum": figure_styles(papers.all_papers().values())}),
]
METRICS = tuple(dict.fromkeys(metric for kind in KINDS.values() for metric in kind.metrics))
# A number stands for itself, as in files whose columns have no names.
ColumnName = Annotated[str, Field(coerce_numbers_to_str=True)]
OfficialTask = Annotated[
    str,
    AfterValidator(lambda name: _one_of(name, RELEASES)),
    WithJsonSchema({"enum": [*RELEASES]}),
]
Metric = Annotated[str, AfterValidator(lambda name: _one_of(name, METRICS))]
Count = Annotated[int, Field(ge=1), AfterValidator(_in_a_table)]
FromZero = Annotated[int, Field(ge=0), AfterValidator(_in_a_table)]
# What stands in a cell of a table.
Cell = Annotated[str, AfterValidator(_in_one_line), AfterValidator(_no_formula)]
LearningRate = Annotated[float, Field(gt=0, lt=10)]
# What pydantic calls the two forms of learning rates in the path of a problem.
LIST, WORD = "[list]", "[word]"
ListOfRates = Annotated[
    tuple[LearningRate, ...], Field(min_length=1), AfterValidator(_distinct), Tag(LIST)
]
SearchOfRates = Annotated[Literal["search"], BeforeValidator(_search), Tag(WORD)]
LearningRates = Annotated[
    ListOfRates | SearchOfRates,
    Discriminator(lambda given: WORD if isinstance(given, str) else LIST),
]
Labels = Annotated[
    tuple[str, ...], Field(min_length=2), AfterValidator(_distinct), AfterValidator(_trimmed)
]
Names = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_distinct)]
_NUMBER_OF_ROWS = {"anyOf": [{"type": "integer", "minimum": 1}, {"const": ALL_ROWS}]}
_NUMBERS_OF_ROWS = {"type": "array", "items": _NUMBER_OF_ROWS, "minItems": 1, "uniqueItems": True}
NumbersOfRows = Annotated[
    tuple[int | Literal["all"], ...],
    BeforeValidator(_numbers_of_rows),
    WithJsonSchema({"anyOf": [*_NUMBER_OF_ROWS["anyOf"], _NUMBERS_OF_ROWS, {"type": "null"}]}),
]


def each_trained(rates: LearningRates | tuple[()]) -> tuple[float | tuple[float, ...], ...]:
    """What each run of a method trains with: a learning rate, or those among which it finds one."""
    return (SEARCHED,) if rates == "search" else tuple(rates)


class Section(BaseModel):
    """A part of the configuration: immutable, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ModelSource(Section):
    """Where a model comes from: a hub id, a local path, or an installed Python package."""

    hub: Annotated[str, AfterValidator(_repository)] | None = Field(
        default=None, description="repository id on the hub"
    )
    revision: str | None = Field(
        default=None,
        min_length=1,
        description="commit, tag or branch on the hub; the commit of a tag or branch is asked for "
        "once, and kept in `pinned.json` in the results",
    )
    path: str | None = Field(default=None, description="local directory")
    package: str | None = Field(default=None, description="installed Python package")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in ("hub", "path", "package") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(
                f"found {' and '.join(given) or 'none'}, expected exactly one of hub, path, package"
            )
        return self


class OwnTask(Section):
    """A user's task: files, columns, label words and metrics."""

    kind: KindName | None = Field(
        default=None,
        description="without it `classification` where there are `labels`, and else `regression`",
    )
    files: dict[str, str] = Field(
        description="split to path. Of texts: .csv, .tsv or .jsonl, where a cell that begins with "
        "a quotation mark is quoted. Of tokens: .conllu, whose columns have names, .conll or .txt, "
        "whose columns are 1, 2, …, or .jsonl with lists. Of spans: .json as SQuAD's"
    )
    text: Annotated[tuple[ColumnName, ...], AfterValidator(_distinct)] = Field(
        default=(),
        description="one or two columns; of tokens the column of words; left out of spans, whose "
        "format names `question` and `context`",
    )
    label: Annotated[ColumnName, AfterValidator(_no_formula)] | None = Field(
        default=None, description="column of the label; without it `label`, of spans `answers`"
    )
    labels: Labels | None = Field(
        default=None,
        description="label words in order; none for a regression or spans. Files hold them, or, "
        "of texts where none is a number, their numbers from 0",
    )
    metrics: Annotated[tuple[Metric, ...], AfterValidator(_distinct)] = Field(
        default=(), description="of tokens and spans those that are usual, where it is left out"
    )
    title: Annotated[Cell, AfterValidator(_no_mathematics)] | None = Field(
        default=None, description="name in tables and figures"
    )

    @model_validator(mode="after")
    def _label_is_no_text(self) -> Self:
        label = self.label or KINDS[self.kind_name].label
        if label in self.text:
            raise ValueError(f"found column {label!r} as text and as label, expected two")
        return self

    @property
    def kind_name(self) -> KindName:
        return self.kind or kind_of_unnamed(self.labels)

    def task(self, name: str) -> Task:
        kind = KINDS[self.kind_name]
        return Task(
            name=name,
            title=self.title or name,
            text=self.text or kind.text,
            label=self.label or kind.label,
            labels=self.labels,
            kind=self.kind_name,
            metrics=self.metrics or kind.default_metrics,
        )


class FisherSettings(Section):
    """How Fisher information is estimated before training."""

    rows: Count | None = Field(default=None, description="sample of the training examples")
    seed: FromZero = 0


class Fractions(Section):
    """Train only the top fraction of a selection, by Fisher information."""

    of: str = MASKED_METHOD
    values: Annotated[tuple[Fraction, ...], Field(min_length=1), AfterValidator(_distinct)]
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1), AfterValidator(_distinct)] = SCOPES
    learning_rates: LearningRates | None = Field(
        default=None, description="none where `by_task` says"
    )


class TaskSettings(Section):
    """What one task's runs do otherwise than the experiment says."""

    learning_rates: LearningRates | None = Field(
        default=None, description="of the methods and fractions that name none themselves"
    )
    batch_size: Count | None = None
    epochs: Count | None = None
    max_length: int | None = Field(default=None, ge=4, le=512)


class ModelSettings(Section):
    """What one model's runs have beside those of the experiment."""

    methods: dict[str, LearningRates | None] = Field(
        min_length=1,
        description="methods that only this model trains, or over other learning rates",
    )


class Experiment(Section):
    """Runs: model × task × method × learning rate × seed, and the fractions."""

    paper: Paper | None = Field(
        default=None,
        description="whose tables and figures to make beside those that every experiment has; an "
        "experiment that is named as a paper makes that paper's",
    )
    models: Names
    tasks: Names
    by_task: dict[str, TaskSettings] = Field(
        default={}, description="task to its own settings, where they differ"
    )
    by_model: dict[str, ModelSettings] = Field(
        default={}, description="model to what it trains beside the others"
    )
    methods: dict[str, LearningRates | None] = Field(
        min_length=1,
        description="method to the learning rates that are tried, on every task: a list, of which "
        "all train, or `search`, which finds one; none where `by_task` or `learning_rates` says",
    )
    learning_rates: LearningRates | None = Field(
        default=None, description="of methods and fractions for which nothing else names them"
    )
    fractions: Fractions | None = None
    fisher: FisherSettings = FisherSettings()
    seeds: Annotated[tuple[FromZero, ...], Field(min_length=1), AfterValidator(_distinct)] = (0,)
    epochs: Count
    batch_size: Count
    max_length: int = Field(default=128, ge=4, le=512)
    doc_stride: Count = Field(
        default=128,
        description="tokens of a long context from the beginning of one window to the next, or a "
        "whole window's where that has fewer",
    )
    schedule: Literal["constant", "linear"] = "constant"
    warmup: float = Field(default=0.0, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    precision: Literal["fp32", "bf16"] = "fp32"
    train_rows: NumbersOfRows = Field(
        default=(ALL_ROWS,),
        description="on how many rows to train: a number, `all`, or a list of them, each of which "
        "trains every method. Smaller ones are part of larger ones, drawn by the run's seed. "
        "Tables and claims are of the largest, and fractions train on it alone",
    )

    @model_validator(mode="after")
    def _one_model_where_masks_are_made(self) -> Self:
        if len(self.models) > 1 and (reads_information(papers.find(self.paper)) or self.fractions):
            raise ValueError(
                f"found {len(self.models)} models, expected one: Fisher information and masks "
                "are of one model; write an experiment for each"
            )
        return self

    @model_validator(mode="after")
    def _every_method_has_learning_rates(self) -> Self:
        bare = [t for t in self.tasks if self.settings(t).learning_rates is None]
        if not bare:
            return self
        for model in self.models:
            for method, rates in self.methods_of(model).items():
                if rates is None:
                    raise ValueError(
                        f"found no learning rates for method {method!r} on task {bare[0]!r}, "
                        f"expected them under methods.{method}, by_task.{bare[0]}.learning_rates "
                        "or learning_rates; `search` finds one"
                    )
        if self.fractions and self.fractions.learning_rates is None:
            raise ValueError(
                f"found no learning rates for fractions on task {bare[0]!r}, expected them under "
                f"fractions.learning_rates or by_task.{bare[0]}.learning_rates"
            )
        return self

    def methods_of(self, model: str) -> dict[str, LearningRates | None]:
        """The methods that a model trains, with their learning rates on every task.

        What the model says wins over what the experiment says. Methods without learning rates have
        each task's.
        """
        settings = self.by_model.get(model)
        return self.methods | (settings.methods if settings else {})

    def all_methods(self) -> list[str]:
        """Every method that some model trains."""
        return list(dict.fromkeys(m for model in self.models for m in self.methods_of(model)))

    def limits_of_rows(self, rows: int) -> dict[int, int | None]:
        """On how many of a training set's ``rows`` to train, each to the limit that gives as many.

        A number that is no smaller than the training set is all of it, which has no limit.
        """
        numbers = [rows if n == ALL_ROWS else min(int(n), rows) for n in self.train_rows]
        return {number: number if number < rows else None for number in numbers}

    def settings(self, task: str) -> "SettledTask":
        """What a task's runs are trained with."""
        settings = self.by_task.get(task, TaskSettings())
        return SettledTask(
            learning_rates=settings.learning_rates or self.learning_rates,
            batch_size=settings.batch_size or self.batch_size,
            epochs=settings.epochs or self.epochs,
            max_length=settings.max_length or self.max_length,
        )


class SettledTask(NamedTuple):
    """An experiment's settings for one task, with the learning rates of what names none itself."""

    learning_rates: LearningRates | None
    batch_size: int
    epochs: int
    max_length: int


class Style(Section):
    """How one figure is drawn."""

    colormap: str = Field(default="viridis", description="for heat maps")
    width: float = Field(
        default=6.3, gt=0, le=50, description="inches, of a paper's text; narrow figures take half"
    )

    @field_validator("colormap")
    @classmethod
    def _known_colormap(cls, name: str) -> str:
        from matplotlib import colormaps

        if name not in colormaps:
            raise ValueError(one_of(name, colormaps))
        return name


class Assumptions(Section):
    """What estimates of time assume of the machine that trains. They decide no result."""

    device: str = Field(default="one A100", description="for people to read")
    teraflops: dict[Literal["fp32", "bf16"], Annotated[float, Field(gt=0)]] = Field(
        default={"fp32": 12.0, "bf16": 80.0},
        description="10¹² floating-point operations per second that large products reach",
    )
    milliseconds_per_layer: float = Field(
        default=1.5, ge=0, description="what a training step takes per layer beside its products"
    )
    runs_side_by_side: Count = Field(
        default=8, description="that share a step, where no matrices train"
    )
    start_minutes: float = Field(default=1.0, ge=0, description="of every job, before it trains")
    time_margin: float = Field(default=2.0, ge=1, description="of the time that a job asks for")
    longest_job_hours: Count = Field(
        default=24, description="the partition's limit; a longer sweep goes on in a new job"
    )

    @field_validator("teraflops")
    @classmethod
    def _both_precisions(cls, given: dict[str, float]) -> dict[str, float]:
        if len(given) < 2:
            raise ValueError(f"found {', '.join(given) or 'none'}, expected fp32 and bf16")
        return given


class Config(Section):
    """What to run. Keys about jobs, machines and downloads decide no result."""

    results: Annotated[Cell, AfterValidator(_results)] = Field(default="results", min_length=1)
    source: Literal["hub", "tsv", "builtin"] = Field(
        default="hub", description="where the GLUE tasks' rows come from"
    )
    revision: str | None = Field(
        default=None, min_length=1, description="commit, tag or branch of the hub's GLUE"
    )
    hub_cache: str | None = Field(
        default=None, description="where downloads are kept; without it, `hub` in the results"
    )
    environment: Literal["cpu", "cuda"] = Field(
        default="cpu", description="which of envs/ `--sdm conda` makes for jobs that compute"
    )
    container: Annotated[str, AfterValidator(_image)] | None = Field(
        default=None, description="image that `--sdm apptainer` runs every job in"
    )
    glue_dir: str | None = Field(
        default=None, description="GLUE in the official layout, for `source: tsv`"
    )
    directories: dict[OfficialTask, Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="task to the directory with its official files, from which it is read "
        "whatever `source` says",
    )
    test_scores: str | None = Field(
        default=None, description="CSV file with the scores that the GLUE server returned"
    )
    models: dict[Name, ModelSource] = {}
    tasks: dict[Name, OwnTask] = {}
    selections: dict[Name, NamedSelection] = {}
    experiments: dict[Name, Experiment] = Field(min_length=1)
    runs_per_job: Count = Field(default=8, description="most runs that one cluster job trains")
    million_examples_per_job: float = Field(
        default=64,
        gt=0,
        description="training examples of all runs of a job and all epochs, at most; a run that "
        "shares no steps counts sixfold",
    )
    runs_at_once: Count | None = Field(
        default=None,
        description="most runs of a job to train side by side; without it, as many as pay",
    )
    checkpoint_minutes: FromZero = Field(
        default=10,
        description="a job that is cut off repeats at most so much; 0: at most one step",
    )
    assumptions: Assumptions = Assumptions()
    figures: dict[FigureStyle, Style] = Field(
        default={}, description="figure's name to how it is drawn; `changes` are all heat maps"
    )

    @field_validator("experiments", mode="before")
    @classmethod
    def _paper_is_named_by_the_experiment(cls, experiments: Any) -> Any:
        if not isinstance(experiments, dict):
            return experiments
        return {
            name: {"paper": name, **experiment}
            if name in papers.all_papers() and isinstance(experiment, dict)
            else experiment
            for name, experiment in experiments.items()
        }

    @model_validator(mode="after")
    def _tsv_has_a_directory(self) -> Self:
        if self.source == "tsv" and self.glue_dir is None:
            raise ValueError("glue_dir: missing, and needed with `source: tsv`")
        return self

    @model_validator(mode="after")
    def _server_knows_the_rows(self) -> Self:
        if self.source == "builtin" and self.test_scores is not None:
            raise ValueError("test_scores: the GLUE server has no scores of `source: builtin`")
        return self

    def all_models(self) -> dict[str, ModelSource]:
        return {name: ModelSource(hub=hub) for name, hub in HUB_MODELS.items()} | self.models

    def selection(self, method: str, model: str = "") -> NamedSelection:
        return named(method, self.selections, model)

    def all_tasks(self) -> dict[str, Task]:
        return TASKS | {name: task.task(name) for name, task in self.tasks.items()}

    def is_submitted(self, task: str) -> bool:
        """Whether the GLUE server scores predictions of a task's test rows."""
        is_official = self.source != "builtin" and task not in self.tasks
        return is_official and bool(TASKS[task].submission)

    def style(self, figure: str) -> Style:
        return self.figures.get(figure, Style())
