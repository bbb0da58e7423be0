"""The settings of ``config.yaml``, as pydantic models."""

from collections.abc import Collection
from typing import Annotated, Any, Literal, Self

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
    LabelColumnNames,
    LabelWords,
    LearningRates,
    LearningRatesOfMethod,
    LearningRatesOfTask,
    MethodName,
    Name,
    Names,
    NumbersOfRows,
    OfficialTask,
    SearchOfRates,
    Section,
)
from subtune.data.sources import OFFICIAL_NAMES
from subtune.methods import MASKED_METHOD, RANKED_BY, NamedSelection, find_selection
from subtune.methods.baselines import Estimator
from subtune.methods.rules import BUILT_IN, FISHER, RANDOM
from subtune.methods.single_entries import SCOPES, Fraction, RankedEntries, Scope
from subtune.runs.spec import FOLD_VERSION, ClassWeights, Fold, Labels, Precision
from subtune.tasks import TASKS, Task
from subtune.tasks.task import TEST
from subtune.tasks.task_kind import KINDS, default_kind

# Kinds of trained parameters, which determine the estimated time of a training step.
Trains = Literal[
    "nothing", "vectors", "entries", "low_rank", "matrices", "differences", "evaluation"
]
# The default value of `margin`.
MARGIN = 0.02
# The length of the shortest pair of texts in RoBERTa: four special tokens and one token per text.
SHORTEST = 6


class ModelSource(Section):
    """The source of a model's files: the hub, a local directory or an installed Python package."""

    hub: Annotated[str, Field(pattern=REPOSITORY)] | None = None
    """name of the model's repository on the Hugging Face hub"""
    revision: str | None = Field(default=None, min_length=1)
    """commit, tag or branch on the hub; default: the main branch. The commit of a tag or branch is
    looked up once and stored in `pinned.json` in the results directory"""
    path: str | None = None
    """local directory with the model's files"""
    package: str | None = None
    """installed Python package that contains the model's files"""
    pooling: Literal["first", "mean"] | None = None
    """input of the classifier: the hidden state of the first token, or the mean over all tokens.
    Default: `mean` if the model comes from sentence-transformers and its files specify mean
    pooling; otherwise the input that the model's class in transformers uses, for most encoders the
    first token"""

    @model_validator(mode="after")
    def _require_one_source(self) -> Self:
        given = [name for name in ("hub", "path", "package") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(
                f"found {' and '.join(given) or 'none'}, expected exactly one of hub, path, package"
            )
        return self


class OwnTask(Section):
    """A user-defined task: files, columns, label words and metrics."""

    kind: KindName | None = None
    """kind of task; default: `classification` if the task has `labels`, else `regression`"""
    files: dict[str, str]
    """file of each split: `train`, `validation`, and optionally `test`. With `test`, scores are
    computed on the test set, and `validation` is only used to select epochs and learning rates.
    Formats for texts: .csv, .tsv, .jsonl, .json (a list), .xlsx and .parquet. In .csv and .tsv
    files, a cell that begins with a quotation mark is quoted. Formats for tokens: .conllu, .conll,
    .txt and .jsonl (with lists as values). The columns of .conllu files have names; the columns of
    .conll and .txt files are called 1, 2, …. Format for spans: .json (SQuAD)"""
    encoding: str | None = None
    """encoding of .csv, .tsv, .conll and .txt files; default: UTF-16 if a file begins with the
    byte-order mark of UTF-16, else UTF-8"""
    sheet: str | None = None
    """sheet of .xlsx files; default: the first"""
    text: Annotated[tuple[ColumnName, ...], DISTINCT] = ()
    """one or two columns with texts; for tokens, the column with the words. Leave `text` out for
    spans, whose file format defines `question` and `context`"""
    label: LabelColumnNames | None = None
    """column with the label; default: `label`, or `answers` for spans. In a multi-label task,
    `label` is a column of lists, such as `["toxic", "insult"]` or `toxic;insult`, or a list of
    columns whose cells are 0 or 1"""
    labels: LabelWords | None = None
    """label words, which are numbered from 0 in this order. Leave `labels` out for regression and
    spans. If `label` lists several columns, the default is their names. Files of texts may hold the
    index of a label in place of its name, unless a label's name contains a digit"""
    group: ColumnName | None = None
    """column with the group of each row, such as its author, patient or thread. With `folds`, all
    rows of a group are in the same fold. Without `group`, rows with equal texts are in the same
    fold. A row with an empty cell is a group of its own"""
    metrics: Annotated[tuple[str, ...], DISTINCT] = ()
    """names of metrics. Epochs and learning rates are selected by the first metric. Default for
    multi-label tasks, tokens and spans: the usual metrics for the kind of task. For classification
    and regression, scorers of scikit-learn (`roc_auc`) or of your own (`my_metrics.py:cost`) are
    also metrics"""
    predictions: dict[MethodName, str] = {}
    """external predictions, such as those of an LLM, which are compared with the methods on the
    same examples. Keys are names of your choice for the systems; values are files. A file has one
    row for each labelled row of the file on which methods are scored, and either a column
    `prediction` with labels or numbers, or a column of probabilities for each label"""
    title: Annotated[str, Field(pattern=LINE)] | None = None
    """name in tables and figures; default: the task's key"""

    @model_validator(mode="after")
    def _require_separate_label(self) -> Self:
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
        """Build the task. Settings that are left out get the defaults of the task's kind."""
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


class MaskFractions(Section):
    """Runs that train only the entries of a method that a rule scores highest."""

    of: str = MASKED_METHOD
    """method whose entries are ranked; runs with masks use the learning rates of this method"""
    values: Annotated[tuple[Fraction, ...], DISTINCT] = Field(min_length=1)
    """fractions of the entries that are trained, above 0 and at most 1"""
    scopes: Annotated[tuple[Scope, ...], DISTINCT] = Field(default=SCOPES, min_length=1)
    """tasks whose training examples determine a task's mask: the task itself
    (`individual`), all tasks (`global`), or all tasks except this one (`cv`); default: all three
    scopes"""
    by: Annotated[str, Field(min_length=1)] = FISHER
    """rule that scores the entries: `fisher` (Fisher information), another built-in rule,
    or a function of your own, such as `my_rules.py:gem`"""

    def name_method(self, by: str) -> str:
        """Return a method's name in tables, which contains the rule unless it is the default."""
        rule = by.rpartition(":")[2]
        return self.of if rule == FISHER else f"{self.of}{RANKED_BY}{rule}"


class TaskSettings(Section):
    """Settings that override those of the experiment for one task."""

    learning_rates: LearningRatesOfTask = None
    batch_size: Count | None = None
    """examples per training step"""
    epochs: Count | None = None
    """passes over the training set"""
    train_rows: NumbersOfRows | None = None
    """number of training examples, `all`, or a list of these"""


class MethodSettings(Section):
    """Settings that override those of the experiment and its tasks for one method."""

    epochs: Count | None = None
    """passes over the training set; methods with few trained parameters need more passes"""
    train_rows: NumbersOfRows | None = None
    """additional numbers of training examples for this method only, smaller than the experiment's
    largest number. The gain from more labelled data is estimated from the scores of these runs"""


class ModelSettings(Section):
    """Additional methods for one model."""

    methods: dict[MethodName, LearningRatesOfMethod] = Field(min_length=1)
    """methods for this model only, or methods of the experiment with other learning rates"""


class Experiment(Section):
    """A grid of runs: model × task × method × learning rate × seed, and optionally fractions."""

    paper: str | None = None
    """paper whose tables and figures are made in addition to the general ones; default: the
    paper with the same name as the experiment, if there is one"""
    models: Names
    """names of models"""
    tasks: Names
    """names of tasks"""
    by_task: dict[str, TaskSettings] = {}
    """settings that override those of the experiment, by task"""
    by_method: dict[MethodName, MethodSettings] = {}
    """settings of a method and of its fractions, by method; they override those of `by_task`"""
    by_model: dict[str, ModelSettings] = {}
    """additional methods, by model"""
    methods: dict[MethodName, LearningRatesOfMethod] = Field(min_length=1)
    """learning rates of each method on every task: a list, with one run per learning rate, or
    `search` for a learning-rate search. Default: the learning rates of `by_task` or
    `learning_rates`. Baselines have no learning rates, and support only classification and
    regression tasks"""
    learning_rates: LearningRatesOfTask = None
    fractions: MaskFractions | None = None
    """additional runs, which train only the entries with the highest Fisher information or with
    the highest scores of another rule"""
    fisher_rows: Count | None = None
    """number of training examples from which Fisher information and gradients are computed;
    default: all"""
    seeds: Annotated[tuple[FromZero, ...], DISTINCT] = Field(default=(0,), min_length=1)
    """random seeds; there is one run per seed"""
    folds: Annotated[int, Field(ge=2, le=LARGEST)] | None = None
    """number of folds for cross-validation on the training set. The run of each seed trains on all
    folds except one, and is scored on that fold instead of the dev set. If there are more seeds
    than folds, the training set is split into folds again for the remaining seeds. Default: no
    cross-validation, runs are scored on the dev set"""
    epochs: Count
    """passes over the training set"""
    batch_size: Count
    """examples per training step"""
    max_length: int = Field(default=128, ge=SHORTEST, le=512)
    """maximum number of tokens of an example. Longer texts are truncated or, for tokens and spans,
    split into several examples"""
    schedule: Literal["constant", "linear"] = "constant"
    """learning-rate schedule after the warm-up: constant, or linear decay to 0"""
    warmup: float = Field(default=0.0, ge=0, lt=1)
    """share of the training steps in which the learning rate increases linearly from 0"""
    weight_decay: float = Field(default=0.0, ge=0)
    """weight decay of AdamW"""
    labels: Labels = "raw"
    """labels for training a regression: `raw`, or `standard`, which standardises them with the mean
    and standard deviation of the training set. Scores, predictions, losses and exported models are
    always in the unit of the raw labels"""
    class_weights: ClassWeights | None = None
    """`balanced`: the loss weights each label by its inverse frequency in the training set,
    `examples / (labels × examples of the label)`. In a multi-label task, the positive examples of a
    label have the weight `examples without the label / examples with the label`. Default: all
    examples have the same weight"""
    patience: Count | None = None
    """early stopping: a run ends after this number of epochs without a better score. Default: no
    early stopping"""
    margin: float = Field(default=MARGIN, gt=0)
    """largest acceptable drop in score relative to full fine-tuning, in the unit of the first
    metric. The answer is the smallest method within this margin"""
    left_out: tuple[Name, ...] = ()
    """methods that `compare` left out to save time. While a method is left out, no answer says that
    full fine-tuning is worth it"""
    share_of_rows: float = Field(default=1, gt=0, le=1)
    """share of the table's rows that `compare` drew as the training set to save time. Answers name
    it, because full fine-tuning may gain more from the other rows than smaller methods"""
    precision: Precision = "fp32"
    """precision of matrix products. `tf32` rounds their inputs to 10 bits of mantissa on GPUs of
    the Ampere generation or later; on other devices, it is the same as `fp32`"""
    train_rows: NumbersOfRows = (ALL_ROWS,)
    """number of training examples, `all`, or a list of these. Every method is trained on each
    number of examples. Smaller training sets are subsets of larger ones, and are drawn with the
    run's seed. Tables, claims and fractions use the largest number"""

    @model_validator(mode="after")
    def _require_one_model_for_masks(self) -> Self:
        if len(self.models) > 1 and self.fractions:
            raise ValueError(
                f"found {len(self.models)} models with `fractions`, expected one model; write a "
                "separate experiment for each model"
            )
        return self

    def methods_for(self, model: str) -> dict[str, LearningRates | None]:
        """Map a model's methods to their learning rates; None means the task's learning rates."""
        settings = self.by_model.get(model)
        return self.methods | (settings.methods if settings else {})

    @property
    def rankings(self) -> list[tuple[str, Scope]]:
        """The rules and scopes of `fractions`, with a random control as for selections `top`."""
        if not self.fractions:
            return []
        by, scopes = self.fractions.by, self.fractions.scopes
        has_control = by not in BUILT_IN and not self.paper
        return [*((by, scope) for scope in scopes), *([(RANDOM, scopes[0])] if has_control else [])]

    @property
    def all_methods(self) -> list[str]:
        """The methods that are trained with at least one model."""
        return [*dict.fromkeys(m for model in self.models for m in self.methods_for(model))]

    def rates_for(self, method: str, model: str, task: str) -> list[tuple[float, ...]]:
        """Return a method's learning rates; by default, the task's.

        Each is a tuple of a single rate, or of the rates from which a search starts.
        """
        own = self.methods_for(model).get(method)
        given = own or self.with_overrides(task).learning_rates
        if given == "search":
            return [SEARCHED]
        if isinstance(given, SearchOfRates):
            return [tuple(sorted(given.search))]
        return [(value,) for value in given or ()]

    def list_row_numbers(self, rows: int, method: str = "") -> list[int]:
        """Return the distinct training set sizes for all methods, or those added for ``method``.

        Sizes are at most ``rows``. Added sizes are smaller than the largest size for all methods.
        """
        given = self._settings_of(method).get("train_rows", ()) if method else self.train_rows
        numbers = [*dict.fromkeys(rows if n == ALL_ROWS else min(int(n), rows) for n in given)]
        if not method:
            return numbers
        others = self.list_row_numbers(rows)
        return [n for n in numbers if n < max(others) and n not in others]

    def find_fold(self, seed: int) -> Fold | None:
        """Return the fold on which the runs of a seed are scored, or None without folds."""
        if self.folds is None:
            return None
        partition, number = divmod(self.seeds.index(seed), self.folds)
        return Fold(of=self.folds, number=number, partition=partition, version=FOLD_VERSION)

    def _settings_of(self, method: str) -> dict[str, Any]:
        """Return a method's settings in `by_method`. ``gem by random`` has those of ``gem``."""
        given = [self.by_method.get(name) for name in (method.partition(RANKED_BY)[0], method)]
        pairs = (pair for settings in given if settings for pair in settings)
        return {name: value for name, value in pairs if value is not None}

    def with_overrides(self, task: str, method: str = "") -> Self:
        """Return a copy in which the task's settings override the experiment's.

        The method's settings override both.
        """
        own = [*self.by_task.get(task, TaskSettings())]
        # The method's `train_rows` add sizes of the training set, so they override nothing.
        own.append(("epochs", self._settings_of(method).get("epochs")))
        return self.model_copy(update={name: value for name, value in own if value is not None})


class Pace(Section):
    """The time of a training step in seconds, without evaluations.

    The time is ``per_layer * layers / 1000 + per_teraflop * operations / 10**12``.
    """

    per_layer: float = Field(ge=0)
    """milliseconds per layer of the model. Runs that share training steps also share this time"""
    per_teraflop: float = Field(ge=0)
    """seconds per 10¹² floating-point operations in the forward pass of the batch"""


class Assumptions(Section):
    """The machine assumed in time estimates. Results do not depend on the machine."""

    device: str = "H100"
    """machine: `H200`, `CPU core`, `H100`, `H100 tf32`, `A100`, or any other name if `pace` is set.
    Training steps were timed on `H200` and `CPU core`. For the other three machines, the time of a
    step is estimated from these measurements and data sheets. A name with the word `core` denotes a
    CPU. Any other name denotes a GPU, on which more runs can share training steps"""
    pace: dict[Trains, Pace] = {}
    """pace by the kind of trained parameters, as measured by `subtune init`. `nothing` means that
    only the classifier is trained, `differences` means Diff pruning, and `evaluation` means no
    training. The pace of a missing kind is estimated from that of the most similar kind"""
    pace_by_model: dict[str, dict[Trains, Pace]] = {}
    """paces of models whose pace differs from `pace`, by model"""
    start_minutes: float = Field(default=1.0, ge=0)
    """minutes that a job needs before training starts"""
    longest_job_hours: Count = 24
    """time limit of a job on the cluster, in hours. A longer sweep continues in a new job"""

    @property
    def on_gpu(self) -> bool:
        return "core" not in self.device.split()


class Config(Section):
    """The whole configuration. Settings for jobs, machines and downloads do not affect results."""

    results: str = Field(default="results", pattern=RESULTS)
    """directory for all results"""
    source: Literal["hub", "tsv", "builtin"] = "hub"
    """source of the GLUE tasks: the Hugging Face hub (`hub`), the official files in `glue_dir`
    (`tsv`), or subtune's built-in mini tasks (`builtin`)"""
    hub_cache: str | None = None
    """directory for downloads; default: `hub` in the results directory"""
    container: Annotated[str, Field(pattern=IMAGE)] | None = None
    """container image in which all jobs run with `--sdm apptainer`"""
    glue_dir: str | None = None
    """directory with GLUE's official files, required if `source` is `tsv`"""
    directories: dict[OfficialTask, Annotated[str, Field(min_length=1)]] = {}
    """directories with the official files of single tasks, by task; used with any `source`"""
    test_scores: str | None = None
    """CSV file with the test scores returned by the GLUE server"""
    models: dict[Name, ModelSource] = {}
    """models, by names of your choice"""
    tasks: dict[Name, OwnTask] = {}
    """your own tasks, by name"""
    selections: dict[Name, NamedSelection] = {}
    """your own methods, by name"""
    baselines: dict[Name, Estimator] = {}
    """estimators of scikit-learn, by names of your choice"""
    experiments: dict[Name, Experiment] = Field(min_length=1)
    """experiments, by name"""
    runs_per_job: Count = 8
    """maximum number of runs in one job"""
    jobs_at_once: Count | None = None
    """number of jobs that train at the same time on this machine. If set, `runs_per_job` is
    ignored, and a job contains the runs of one seed that share training steps. On a CPU, each run
    that trains whole weight matrices is a job of its own"""
    checkpoint_minutes: FromZero = 10
    """minutes between checkpoints. After an interruption, at most this many minutes of training
    are repeated. 0 means a checkpoint after every step"""
    assumptions: Assumptions = Assumptions()

    @model_validator(mode="after")
    def _require_glue_dir(self) -> Self:
        if self.source == "tsv" and self.glue_dir is None:
            raise ValueError("glue_dir: missing, expected a directory because of `source: tsv`")
        return self

    def all_models(self) -> dict[str, ModelSource]:
        return {name: ModelSource(hub=hub) for name, hub in HUB_MODELS.items()} | self.models

    def selection(self, method: str, model: str = "") -> NamedSelection:
        return find_selection(method, self.own_methods, model)

    @property
    def own_methods(self) -> dict[str, NamedSelection]:
        return self.selections | self.baselines

    def with_random_controls(self) -> Self:
        """Add a random control for each ranking by a function of the user's own.

        The control trains as many random entries of the same tensors, with the same settings.
        Experiments that belong to a paper get no controls.
        """
        experiments = dict(self.experiments)
        for name, each in self.experiments.items():
            if not each.paper:
                by_model = {
                    model: own.model_copy(update={"methods": self._add_controls(own, each.methods)})
                    for model, own in each.by_model.items()
                }
                update = {"methods": self._add_controls(each), "by_model": by_model}
                experiments[name] = each.model_copy(update=update)
        return self.model_copy(update={"experiments": experiments})

    def _add_controls(
        self, section: Experiment | ModelSettings, named: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the methods of a section, and their random controls unless they are ``named``."""
        methods = dict(section.methods)
        for method, rates in section.methods.items():
            selection, control = self.selections.get(method), f"{method}{RANKED_BY}{RANDOM}"
            is_ranked = isinstance(selection, RankedEntries) and selection.top.by not in BUILT_IN
            if is_ranked and control not in named:
                methods.setdefault(control, rates)
        return methods

    def all_tasks(self) -> dict[str, Task]:
        return TASKS | {name: task.task(name) for name, task in self.tasks.items()}

    def is_submitted(self, task: str) -> bool:
        """Return whether the GLUE server scores predictions on the test set of a task."""
        is_official = self.source != "builtin" and task not in self.tasks
        return is_official and task not in OFFICIAL_NAMES
