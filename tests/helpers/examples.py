"""Small tasks, examples, recipes, specs and tables for tests."""

import random
from collections.abc import Callable, Iterable
from functools import cache
from itertools import repeat
from typing import Any

import datasets
import numpy as np
import pandas as pd

from subtune import tasks
from subtune.config.schema import Config, Experiment
from subtune.data.load import build_dataset, tokenize
from subtune.data.sources import make_columns
from subtune.data.subsets import find_sets
from subtune.methods import METHODS, Selection
from subtune.methods.roles import split_name
from subtune.methods.rules import choose_entries
from subtune.methods.single_entries import Ranked, Top, multiply_exactly
from subtune.models.dimensions import papers_models
from subtune.models.families import HEADS
from subtune.runs.spec import DataSpec, ModelSpec, Recipe, RunSpec, TokensSpec
from subtune.tasks import Task
from subtune.tasks.examples import Examples
from subtune.tasks.task_kind import pair_with_places

# A multi-label task; none of the built-in tasks is one.
TOXIC = Task(
    name="toxic",
    title="Toxic",
    text=("text",),
    kind="multilabel",
    labels=("toxic", "insult", "threat"),
    metrics=("f1_micro", "f1_macro", "accuracy"),
)
TASKS = tasks.TASKS | {"toxic": TOXIC}
# The parameters of BERT that every method trains.
CLASSIFIER = ("classifier.weight", "classifier.bias")
WORDS = "film story good bad great dull warm cold happy sad dog cat runs sleeps sings"


def sentences(count: int, seed: int = 0) -> list[str]:
    """Draw texts of 2 to 9 random words. Their lengths differ, so that padding matters."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS.split(), k=rng.randrange(2, 10))) for _ in range(count)]


def rows_of(task: Task, rows: int = 12, evaluation: int = 6) -> datasets.DatasetDict:
    """Draw random rows with random labels. Some long rows become several examples."""
    rng = random.Random(1)
    make = {"tokens": tagged, "span": questions}.get(task.kind, labelled)

    def split(count: int, seed: int) -> datasets.Dataset:
        return split_of(task, make(task, count, seed, rng))

    splits = {name: split(evaluation, 10 + i) for i, name in enumerate(task.evaluation)}
    return datasets.DatasetDict({"train": split(rows, 0), **splits})


def split_of(task: Task, rows: Iterable[dict], source: str = "example") -> datasets.Dataset:
    """Build a split from labelled rows, which map column names to cells."""
    placed = pair_with_places(rows)
    return build_dataset(task, make_columns(task, placed, labelled=True, source=source))


@cache
def tokens(
    task: Task, directory, rows: int = 12, evaluation: int = 6, apart: bool = False
) -> datasets.DatasetDict:
    """Tokenize the rows of `rows_of`."""
    examples = rows_of(task, rows, evaluation)
    return tokenize(task, examples, directory, 24, doc_stride_of(task), apart)


def doc_stride_of(task: Task) -> int | None:
    """Return the stride of overlapping windows, or None for tasks without windows."""
    return 6 if task.of_kind.overlaps else None


def labelled(task: Task, count: int, seed: int, rng: random.Random) -> list[dict]:
    """Draw random sentences with random labels, for tasks with one or two texts."""
    columns = [sentences(count, seed + i) for i in range(len(task.text))]
    draw: dict[str, Callable[[], Any]] = {
        "regression": lambda: f"{rng.random() * 5:.2f}",
        "multilabel": lambda: rng.sample(task.labels, rng.randrange(3)),
        "classification": lambda: rng.choice(task.labels),
    }
    labels = [draw[task.kind]() for _ in range(count)]
    return [
        dict(zip(task.text, texts, strict=True)) | {task.label: label}
        for *texts, label in zip(*columns, labels, strict=True)
    ]


def tagged(task: Task, count: int, seed: int, rng: random.Random) -> list[dict]:
    """Draw random sentences with a label per word. Every third one makes several examples."""
    texts = [text.split() for text in sentences(count, seed)]
    rows = [words * 4 if number % 3 == 0 else words for number, words in enumerate(texts)]
    return [
        {task.text[0]: words, task.label: [rng.choice(task.labels) for _ in words]}
        for words in rows
    ]


def questions(task: Task, count: int, seed: int, rng: random.Random) -> list[dict]:
    """Draw random questions with answers in random contexts. Most contexts take several windows."""
    rows = []
    for question, context in zip(
        sentences(count, seed), sentences(5 * count, seed + 1)[::5], strict=True
    ):
        words = (context.split() * 6)[: rng.randrange(6, 40)]
        start = rng.randrange(len(words))
        answer = " ".join(words[start : start + rng.randrange(1, 4)])
        offset = len("".join(f"{word} " for word in words[:start]))
        answers = {"text": [answer], "answer_start": [offset]}
        rows.append({"question": question, "context": " ".join(words), task.label: answers})
    return rows


def packable(input_ids, labels, token_types=None, reads=None) -> Examples:
    """Build examples from token ids and labels. Rows with equal token ids have equal texts.

    Args:
        reads: which tokens the head reads: positions per example, ``"all"``, or None for the first.
    """
    columns = {"idx": list(range(len(input_ids))), "input_ids": input_ids, "label": labels}
    columns["set"] = find_sets(([str(ids)] for ids in input_ids), repeat(None, len(input_ids)))
    if token_types is not None:
        columns["token_type_ids"] = token_types
    if reads is None or reads == "all":
        return Examples(datasets.Dataset.from_dict(columns), reads or "first")
    return Examples(datasets.Dataset.from_dict(columns | {"reads": reads}), "marked")


def examples_of(task: Task, tokens: datasets.DatasetDict, head="") -> dict[str, Examples]:
    """Build the examples of the labelled splits for a head (default: the head of the task)."""
    return {
        split: Examples(tokens[split], HEADS[head or task.of_kind.head])
        for split in task.labelled_splits
    }


def recipe(**changes) -> Recipe:
    settings = {
        "learning_rate": 1e-2,
        "batch_size": 4,
        "epochs": 2,
        "schedule": "linear",
        "warmup": 0.1,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "precision": "fp32",
    }
    return Recipe(**(settings | changes))


def run_spec(selection: Selection = METHODS["layernorm"], task: str = "sst2", **changes) -> RunSpec:
    data = DataSpec(task=TASKS[task], source="builtin", version="1")
    return RunSpec(
        model=ModelSpec(source="files", version="1"),
        tokens=TokensSpec(
            data=data, tokenizer="t", max_length=24, doc_stride=doc_stride_of(TASKS[task])
        ),
        selection=selection,
        recipe=recipe(**changes),
        seed=0,
    )


def experiment(**changed) -> Experiment:
    """Build an experiment with one task and one method, with the settings in ``changed``."""
    settings = {"models": ["minilm"], "tasks": ["rte"], "methods": {"bitfit": [1e-3]}}
    return Experiment.model_validate(settings | {"epochs": 1, "batch_size": 8} | changed)


def config(experiment: Experiment, **changed) -> Config:
    """Build a configuration with one experiment, with the settings in ``changed``."""
    settings = {"source": "hub", "experiments": {"mine": experiment}}
    return Config.model_validate(settings | changed)


def mask(model, fraction):
    """Build a fixed mask, which mixes the LayerNorm entries of all tensors."""
    names = [name for name in model.parameters if ".output.LayerNorm." in name]
    flat = np.arange(len(names) * 32)
    scores = dict(zip(names, np.split(-((flat * 7.0) % len(flat)), len(names)), strict=True))
    return choose_entries(scores, multiply_exactly(fraction, len(flat)))


def top(fraction):
    """Select the entries of a mask with a fixed name, such as that of `mask`."""
    return Top(top=Ranked(ranking="r", fraction=fraction))


def selection_of(kind) -> Selection:
    """Return the selection of a method, or a mask if ``kind`` is ``"top"``."""
    return top(0.3) if kind == "top" else METHODS[kind]


def entries_of(kind, model):
    """Return the entries of a model that `selection_of` selects."""
    return selection_of(kind).resolve(model.shapes, 0, mask(model, 0.3) if kind == "top" else None)


def scored(*rows) -> pd.DataFrame:
    """Build a table of run scores for one model.

    Args:
        rows: tuples of task, method, fraction, scope, learning rate, seed and score.
    """
    names = ["model", "task", "method", "fraction", "scope", "learning_rate", "seed", "value"]
    table = pd.DataFrame([("minilm", *row) for row in rows], columns=names)
    extra = {"column": table["task"], "metric": "accuracy", "decides": True}
    extra |= dict.fromkeys(["smallest_rate", "largest_rate"], table["learning_rate"])
    extra |= {"plateau": None}
    extra |= {"at_edge": False, "curve": "converged", "margin": 0.02}
    extra |= {"share_read": 1.0, "judged_apart": False, "fold": None, "searched": False}
    extra |= {"classifier": 0, "encoder_size": 1, "planned": 0, "across_models": False}
    return table.assign(run="r", best_epoch=1, trainable=10, train_rows=100, **extra)


def sums(task: str, **information) -> pd.DataFrame:
    """Build a table of Fisher information for two layers, in which every tensor has size 2.

    Args:
        information: the information of components, with underscores for dots. Others have 1.
    """
    shapes = papers_models()["bert-base-cased"].shapes(2)
    rows = [
        (name, 2, information.get(split_name(name).component.replace(".", "_"), 1.0))
        for name in shapes
        if split_name(name).layer in (0, 1)
    ]
    rows.append(("pooler.dense.weight", 4, 99.0))
    return pd.DataFrame(rows, columns=["parameter", "size", "information"]).assign(task=task)
