"""The typed model of ``config.yaml``."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from subtune.config.fields import (
    ALL_ROWS,
    DISTINCT,
    HUB_MODELS,
    IMAGE,
    LARGEST,
    LINE,
    REPOSITORY,
    RESULTS,
    SEARCHED,
    ColumnName,
    Count,
    FromZero,
    KindName,
    LabelColumns,
    LabelWords,
    LearningRates,
    LearningRatesOfMethod,
    LearningRatesOfTask,
    MethodName,
    Metric,
    Name,
    Names,
    NumbersOfRows,
    OfficialTask,
    Rate,
    SearchOfRates,
    Section,
)
from subtune.data.sources import OFFICIAL_NAMES
from subtune.methods import MASKED_METHOD, NamedSelection, find_selection
from subtune.methods.single_entries import SCOPES, Fraction, Scope
from subtune.runs.spec import ClassWeights, Fold, Labels, Precision
from subtune.tasks import TASKS, Task
from subtune.tasks.task import KINDS, TEST, default_kind

# Kinds of steps, by what they train. A step's time is estimated by its kind.
Trains = Literal[
    "nothing", "vectors", "entries", "low_rank", "matrices", "differences", "evaluation"
]
# The default of `margin`.
MARGIN = 0.02
# The length of RoBERTa's shortest pair: four special tokens, and one token per text.
SHORTEST = 6


class ModelSource(Section):
    """A model's source: the hub, a local directory or an installed Python package."""

    hub: Annotated[str, Field(pattern=REPOSITORY)] | None = None
    """name of the model's repository on the hub"""
    revision: str | None = Field(default=None, min_length=1)
    """commit, tag or branch on the hub; default: the main branch. The commit of a tag or branch is
    looked up once and stored in `pinned.json` in the results"""
    path: str | None = None
    """local directory with the model's files"""
    package: str | None = None
    """installed Python package that holds the model's files"""
    pooling: Literal["first", "mean"] | None = None
    """what the classifier of a text reads: the first token, or the mean of all tokens; default: the
    mean if the model comes from sentence-transformers and its files say so, else what transformers'
    class reads, the first token in most encoders"""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in ("hub", "path", "package") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(
                f"found {' and '.join(given) or 'none'}, expected exactly one of hub, path, package"
            )
        return self


class OwnTask(Section):
    """A task of the user's own: its files, columns, label words and metrics."""

    kind: KindName | None = None
    """default: `classification` if the task has `labels`, else `regression`"""
    files: dict[str, str]
    """the file of each split: `train`, `validation`, and optionally `test`. With `test`,
    `validation` only selects epochs and learning rates, and scores come from test rows. Texts: .csv
    or .tsv, where a cell that begins with
    a quotation mark is quoted; .jsonl; .json with a list; .xlsx or .parquet. Tokens: .conllu, whose
    columns have names; .conll or .txt, whose columns are 1, 2, …; or .jsonl with lists. Spans:
    .json in SQuAD's format"""
    encoding: str | None = None
    """encoding of .csv, .tsv, .conll and .txt files; default: UTF-8, or UTF-16 if a file has a
    byte-order mark"""
    sheet: str | None = None
    """sheet of .xlsx files; default: the first"""
    text: Annotated[tuple[ColumnName, ...], DISTINCT] = ()
    """one or two columns with texts; for tokens, the column with the words. Leave it out for spans,
    whose format names `question` and `context`"""
    label: LabelColumns | None = None
    """column with the label; default: `label`, for spans `answers`. For a multi-label task a column
    of lists, such as `["toxic", "insult"]` or `toxic;insult`, or a list of columns of 0 and 1"""
    labels: LabelWords | None = None
    """the label words in order; leave them out for regression and spans; default for several label
    columns: their names. Files of texts may have numbers, from 0, in place of the words, if no word
    is a number"""
    group: ColumnName | None = None
    """column whose value rows of one author, patient or thread share: with `folds`, these rows are
    in one fold, in place of rows with equal texts. A row with an empty cell is its own group"""
    metrics: Annotated[tuple[Metric, ...], DISTINCT] = ()
    """metrics, the deciding one first; default for tokens and spans: the usual ones"""
    predictions: dict[MethodName, str] = {}
    """predictions that you bring, such as an LLM's: for each system, by your name for it, a file.
    It has a row for each labelled row of the file whose rows give the scores, and a column
    `prediction` of labels or numbers, or a column of probabilities for each label. They are
    compared with the methods on the same rows"""
    title: Annotated[str, Field(pattern=LINE)] | None = None
    """name in tables and figures; default: the task's key"""

    @model_validator(mode="after")
    def _label_is_no_text(self) -> Self:
        given = self.label or KINDS[self.kind_name].label
        for label in (given,) if isinstance(given, str) else given:
            if label in self.text:
                raise ValueError(
                    f"found column {label!r} as text and as label, expected different columns"
                )
        return self

    @property
    def kind_name(self) -> str:
        return self.kind or default_kind(self.labels)

    def task(self, name: str) -> Task:
        """Return the task with the defaults of its kind."""
        kind = KINDS[self.kind_name]
        return Task(
            name=name,
            title=self.title or name,
            text=self.text or kind.text,
            label=self.label or kind.label,
            labels=self.labels or (self.label if isinstance(self.label, tuple) else None),
            kind=self.kind_name,
            metrics=self.metrics or kind.default_metrics,
            evaluation=("validation", TEST) if TEST in self.files else ("validation",),
            encoding=self.encoding,
            sheet=self.sheet,
            group=self.group,
            predictions=tuple(self.predictions.items()),
        )


class Fractions(Section):
    """Train only the top fraction of a selection, by Fisher information."""

    of: str = MASKED_METHOD
    """method whose entries are ranked; its masks have its learning rates"""
    values: Annotated[tuple[Fraction, ...], DISTINCT] = Field(min_length=1)
    """fractions of the entries to train, above 0 and at most 1"""
    scopes: Annotated[tuple[Scope, ...], DISTINCT] = Field(default=SCOPES, min_length=1)
    """tasks whose information decides: its own (`individual`), all (`global`), or all others
    (`cv`); default: all three scopes"""


class TaskSettings(Section):
    """Settings of one task that differ from the experiment's."""

    learning_rates: LearningRatesOfTask = None
    batch_size: Count | None = None
    """examples per training step"""
    epochs: Count | None = None
    """passes over the training set"""
    train_rows: NumbersOfRows | None = None
    """number of training rows, `all`, or a list of them"""


class MethodSettings(Section):
    """Settings of one method that differ from the experiment's and its tasks'."""

    epochs: Count | None = None
    """passes over the training set; few parameters need more passes than many"""
    train_rows: NumbersOfRows | None = None
    """further numbers of training rows, smaller than the experiment's largest, on which only this
    method trains; its scores show what more labels would add"""


class ModelSettings(Section):
    """Methods that one model trains in addition to the experiment's."""

    methods: dict[MethodName, LearningRatesOfMethod] = Field(min_length=1)
    """methods that only this model trains, or trains with other learning rates"""


class Experiment(Section):
    """A grid of runs: model × task × method × learning rate × seed, and the fractions."""

    paper: str | None = None
    """paper whose tables and figures are made in addition to those of every experiment; default:
    the paper with the experiment's name, if there is one"""
    models: Names
    """names of models"""
    tasks: Names
    """names of tasks"""
    by_task: dict[str, TaskSettings] = {}
    """settings of single tasks that differ from those below"""
    by_method: dict[MethodName, MethodSettings] = {}
    """settings of single methods and their fractions; they override those of `by_task`"""
    by_model: dict[str, ModelSettings] = {}
    """methods that single models train in addition"""
    methods: dict[MethodName, LearningRatesOfMethod] = Field(min_length=1)
    """each method's learning rates on every task: a list, all of which are trained, or `search`,
    which finds one; default: those of `by_task` or `learning_rates`. `embeddings` has none, and
    runs only on tasks of classification and regression"""
    learning_rates: LearningRatesOfTask = None
    fractions: Fractions | None = None
    """train top fractions by Fisher information, too"""
    fisher_rows: Count | None = None
    """number of training examples from which Fisher information is estimated; default: all"""
    seeds: Annotated[tuple[FromZero, ...], DISTINCT] = Field(default=(0,), min_length=1)
    """one run per seed"""
    folds: Annotated[int, Field(ge=2, le=LARGEST)] | None = None
    """cross-validation: the number of folds of the training rows. Each seed's run trains on all
    folds but one, and is scored on that one instead of dev rows. After this many seeds, the next
    ones divide the rows again. Default: runs are scored on dev rows"""
    epochs: Count
    """passes over the training set"""
    batch_size: Count
    """examples per training step"""
    max_length: int = Field(default=128, ge=SHORTEST, le=512)
    """largest number of tokens of an example; longer texts are cut, or split into examples"""
    schedule: Literal["constant", "linear"] = "constant"
    """learning rate after the warm-up: constant, or falls to 0"""
    warmup: float = Field(default=0.0, ge=0, lt=1)
    """share of all steps in which the learning rate rises"""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's weight decay"""
    labels: Labels = "raw"
    """labels on which a regression trains: `raw`, or `standard`: standardised with the mean and
    standard deviation of the training rows. Scores, predictions, losses and exported
    models are in the labels' own unit"""
    class_weights: ClassWeights | None = None
    """`balanced`: the loss weights labels by the inverse of their frequency among the training
    rows, rows/(labels × rows of the label); in a multi-label task, the weight of a label that a row
    has is rows without it/rows with it. Default: all rows have the same weight"""
    patience: Count | None = None
    """a run ends after this many epochs without a better score; default: it never ends early"""
    margin: float = Field(default=MARGIN, gt=0, lt=1)
    """the acceptable loss of score against full fine-tuning; the answer names the smallest method
    within it"""
    precision: Precision = "fp32"
    """number format of matrix products; `tf32` rounds their inputs to 10 bits of mantissa on GPUs
    since Ampere, and is fp32 elsewhere"""
    train_rows: NumbersOfRows = (ALL_ROWS,)
    """number of training rows, `all`, or a list of them; every method trains on each. Smaller sets
    are parts of larger ones, drawn by the run's seed. Tables and claims use the largest, and
    fractions train on the largest only"""

    @model_validator(mode="after")
    def _masks_have_one_model(self) -> Self:
        if len(self.models) > 1 and self.fractions:
            raise ValueError(
                f"found {len(self.models)} models, expected one: masks belong to one model; write "
                "an experiment for each"
            )
        return self

    def methods_for(self, model: str) -> dict[str, LearningRates | None]:
        """Return the methods that a model trains, with their learning rates on every task.

        The model's entries replace the experiment's. None means the task's learning rates.
        """
        settings = self.by_model.get(model)
        return self.methods | (settings.methods if settings else {})

    def rates_for(self, method: str, model: str, task: str) -> list[Rate]:
        """Return the learning rates of a method: its own, or else those of the task.

        A search is one of them.
        """
        own = self.methods_for(model).get(method)
        given = own or self.settings(task).learning_rates
        if given == "search":
            return [Rate(SEARCHED[0], SEARCHED)]
        if isinstance(given, SearchOfRates):
            searched = tuple(sorted(given.search))
            return [Rate(searched[0], searched)]
        return [Rate(value) for value in given or ()]

    def list_row_numbers(self, rows: int, method: str = "") -> list[int]:
        """Return the distinct numbers of training rows. Numbers above ``rows`` mean all rows.

        With a method, its further numbers are returned, which are smaller than the experiment's
        largest.
        """
        own = self.by_method.get(method)
        given = ((own and own.train_rows) or ()) if method else self.train_rows
        numbers = [*dict.fromkeys(rows if n == ALL_ROWS else min(int(n), rows) for n in given)]
        if not method:
            return numbers
        others = self.list_row_numbers(rows)
        return [n for n in numbers if n < max(others) and n not in others]

    def find_fold(self, seed: int) -> Fold | None:
        """Return the fold on which a seed's runs are scored, by the seed's position in the list."""
        if self.folds is None:
            return None
        partition, number = divmod(self.seeds.index(seed), self.folds)
        return Fold(of=self.folds, number=number, partition=partition)

    def settings(self, task: str, method: str = "") -> Self:
        """Return the experiment after replacing settings by a task's, and then by a method's."""
        own = [*self.by_task.get(task, TaskSettings())]
        if settings := self.by_method.get(method):
            # Its numbers of rows are further ones.
            own.append(("epochs", settings.epochs))
        return self.model_copy(update={name: value for name, value in own if value is not None})


class Pace(Section):
    """The time of a training step, without evaluations."""

    per_layer: float = Field(ge=0)
    """milliseconds per layer of the model; runs side by side share them"""
    per_teraflop: float = Field(ge=0)
    """seconds per 10¹² operations of the batch's forward pass"""


class Assumptions(Section):
    """The machine assumed in time estimates. Results do not depend on the machine."""

    device: str = "H100"
    """machine whose steps subtune has measured (H200, CPU core) or compares with these by data
    sheets (H100, H100 tf32, A100), or any name if there is a `pace`. A name with the word `core` is
    a CPU's; others are GPUs', on which runs share more"""
    pace: dict[Trains, Pace] = {}
    """pace by what trains, as `subtune init` measures it; `nothing` is the classifier alone,
    `differences` are some entries after all matrices, and `evaluation` trains nothing. What is
    missing counts like the most similar"""
    start_minutes: float = Field(default=1.0, ge=0)
    """minutes that every job takes before it trains"""
    longest_job_hours: Count = 24
    """hours that the cluster allows one job; a longer sweep continues in a new job"""

    @property
    def on_gpu(self) -> bool:
        """True if the machine is a GPU."""
        return "core" not in self.device.split()


class Config(Section):
    """The whole configuration. Keys about jobs, machines and downloads do not affect results."""

    results: str = Field(default="results", pattern=RESULTS)
    """directory of all results"""
    source: Literal["hub", "tsv", "builtin"] = "hub"
    """source of the GLUE tasks: the hub, the official files in `glue_dir`, or the mini tasks built
    into subtune"""
    hub_cache: str | None = None
    """directory for downloads; default: `hub` in the results"""
    container: Annotated[str, Field(pattern=IMAGE)] | None = None
    """image in which `--sdm apptainer` runs every job"""
    glue_dir: str | None = None
    """directory with GLUE's official files, for the source `tsv`"""
    directories: dict[OfficialTask, Annotated[str, Field(min_length=1)]] = {}
    """each task's directory with its official files, used with any `source`"""
    test_scores: str | None = None
    """CSV file with the scores that the GLUE server returned"""
    models: dict[Name, ModelSource] = {}
    """models by your names for them"""
    tasks: dict[Name, OwnTask] = {}
    """your own tasks by name"""
    selections: dict[Name, NamedSelection] = {}
    """your own methods by name"""
    experiments: dict[Name, Experiment] = Field(min_length=1)
    """experiments by name"""
    runs_per_job: Count = 8
    """largest number of runs that one job trains"""
    jobs_at_once: Count | None = None
    """jobs that train at once on this machine: a job has the runs of one seed that share steps or,
    on a CPU, one run that trains matrices. `runs_per_job` is ignored"""
    checkpoint_minutes: FromZero = 10
    """minutes between checkpoints; an interrupted job repeats at most this time. 0 saves after
    every step"""
    assumptions: Assumptions = Assumptions()

    @model_validator(mode="after")
    def _source_has_its_directory(self) -> Self:
        if self.source == "tsv" and self.glue_dir is None:
            raise ValueError("glue_dir: found nothing, expected a directory with `source: tsv`")
        return self

    def all_models(self) -> dict[str, ModelSource]:
        return {name: ModelSource(hub=hub) for name, hub in HUB_MODELS.items()} | self.models

    def selection(self, method: str, model: str = "") -> NamedSelection:
        return find_selection(method, self.selections, model)

    def all_tasks(self) -> dict[str, Task]:
        return TASKS | {name: task.task(name) for name, task in self.tasks.items()}

    def is_submitted(self, task: str) -> bool:
        """Return whether the GLUE server scores predictions of a task's test rows."""
        is_official = self.source != "builtin" and task not in self.tasks
        return is_official and task not in OFFICIAL_NAMES
