"""Whole trainings in float64, compared with a plain loop over transformers' own models.

The loop has no packing, no runs side by side and no sparse gradients: it has padded batches, one
run, dense gradients and torch's AdamW. If a tensor trains in part, the loop resets the other
entries after every step. It reads windows of questions one by one, because transformers' softmax
over a padded batch includes padding. Both end at the same parameters up to `TOLERANCE`, at learning
rates of 1e-3 and more.
"""

import copy
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional
from transformers import get_scheduler

from subtune.methods.selection import Indices, LowRank
from subtune.models import encoder, packing
from subtune.models.encoder import load_encoder
from subtune.training import groups, recipe
from subtune.training.evaluation import Evaluation, evaluate_runs
from subtune.training.groups import train_side_by_side
from subtune.training.values import changed_tensors
from tests.helpers import examples, reference
from tests.helpers.families import FIELDS
from tests.unit.training.results import member

TOLERANCE = 1e-10
# Transformers always computes attention or norms of these families in float32.
ROUNDED = ("gemma", "gemma2", "gemma3_text", "llama", "modernbert", "qwen2", "qwen3")
TOLERANCE_OF_ROUNDED = 1e-5
PACKED = ["bert", "roberta"]
KINDS = ["full", "bitfit", "layernorm", "top", "random", "rand_row_col", "lora-II"]
OF_PACKED = [
    *itertools.product(["sst2", "stsb"], KINDS),
    *itertools.product(["ud_ewt", "squad"], ["full", "bitfit", "top", "random", "lora-II"]),
    *itertools.product(["toxic"], ["full", "layernorm", "lora-II"]),
]
# Every family that is not packed trains on sentences, and two of them also on numbers, words and
# questions. Kinds that cannot share a pass train as one run, the others as three.
ALONE, BESIDE = ["full", "random", "rand_row_col"], ["bitfit", "layernorm", "top", "lora-II"]
# Families without biases.
NO_BIASES = {"gemma", "gemma2", "gemma3_text", "llama", "modernbert", "qwen3"}
OF_OTHERS = [
    (family, (task, kind), 1 if kind in ALONE else 3)
    for family in FIELDS
    for task in [
        "sst2",
        *(["stsb", "ud_ewt", "squad"] if family in ("modernbert", "qwen2") else []),
    ]
    for kind in (ALONE + BESIDE if task == "sst2" else ["full", "layernorm"])
    if not (family in NO_BIASES and kind == "bitfit")
    if task == "sst2" or family in ("modernbert", "qwen2")
] + [("electra", ("toxic", "layernorm"), runs) for runs in (1, 3)]


def is_tried_every_time(family, task, kind, runs):
    """LayerNorm of every family as three runs, and further cases of BERT and RoBERTa."""
    of_packed = kind in ("full", "layernorm", "lora-II") and family in PACKED
    return (runs == 3 and (kind == "layernorm" or of_packed)) or (family, task) == ("bert", "sst2")


OF_PACKED_MODELS = [
    (*case, runs) for case in itertools.product(PACKED, OF_PACKED) for runs in (1, 3)
]
CASES = [
    pytest.param(
        *(family, case, runs),
        marks=[] if is_tried_every_time(family, *case, runs) else pytest.mark.nightly,
    )
    for family, case, runs in OF_PACKED_MODELS + OF_OTHERS
]
# A question makes several examples.
ROWS = {"classification": 10, "multilabel": 10, "regression": 10, "tokens": 10, "span": 5}
# Transformers' loss ignores words with this label.
IGNORED = -100
# One run has the last selection; three side by side have all.
PLAIN = {"learning_rate": 1e-3, "schedule": "constant", "warmup": 0.0}
SETTINGS = [
    settings | {"weight_decay": 0.1, "max_grad_norm": 0.1}
    for settings in (
        PLAIN,
        {"learning_rate": 3e-3, "schedule": "linear", "warmup": 0.3},
        {"learning_rate": 1e-2, "schedule": "constant", "warmup": 0.2},
    )
]


def pretrained(directory, task):
    """A model in float64 with noise in every parameter, so that no value is 0 or 1."""
    model = load_encoder(directory, task.of_kind.head, task.outputs)
    generator = torch.Generator().manual_seed(0)

    def noise(value):
        return 0.05 * torch.randn(value.shape, generator=generator, dtype=torch.float64)

    noisy = {n: v.double() + noise(v) for n, v in model.parameters.items()}
    return replace(model, parameters=noisy)


def transformers_own(model, task, seed):
    """Transformers' model before any step."""
    config = copy.deepcopy(model.config)
    config.num_labels = task.outputs
    config.problem_type = task.of_kind.problem_type
    theirs = reference.CLASSES[model.head].from_config(config, attn_implementation="eager")
    start = model.parameters | encoder.draw_classifier(model, seed)
    own = {model.exported_name(n): as_theirs(model, n, v) for n, v in start.items()}
    theirs.double().load_state_dict(own)
    return theirs.requires_grad_(False)


def as_theirs(model, name, value):
    """A tensor in the layout of transformers' module."""
    return value.mT if model.is_transposed(name) else value


def batches(task, train, index):
    """A batch in transformers' format, in parts of equal weight."""
    inputs = reference.rows_at(train.inputs, index)
    if task.kind == "span":
        for window, number in enumerate(index):
            start, end = torch.tensor(train.labels[number])[:, None]
            of_window = {name: rows[window : window + 1] for name, rows in inputs.items()}
            yield reference.padded(of_window) | {"start_positions": start, "end_positions": end}
        return
    kwargs = reference.padded(inputs)
    if task.kind == "tokens":
        labels = torch.full_like(kwargs["input_ids"], IGNORED)
        for example, number in enumerate(index):
            labels[example, train.reads[number]] = torch.as_tensor(train.labels[number])
    else:
        labels = torch.from_numpy(train.labels[index])
        labels = labels if task.kind == "classification" else labels.double()
    yield kwargs | {"labels": labels}


def loss_of(task, outputs, labels, weights):
    """The loss of a batch; ``weights``, if any, are arguments of torch's losses."""
    if weights is None:
        return outputs.loss
    if task.kind == "multilabel":
        return functional.binary_cross_entropy_with_logits(
            outputs.logits, labels, pos_weight=weights
        )
    logits = outputs.logits.view(-1, task.outputs)
    return functional.cross_entropy(logits, labels.view(-1), weights, ignore_index=IGNORED)


def parameters_after(model, rows, task, member, weights=None):
    """Every parameter after the last epoch, by canonical name."""
    recipe, train = member.recipe, rows["train"]
    theirs = transformers_own(model, task, member.seed)
    exported = {name: model.exported_name(name) for name in model.parameters}
    by_name = {
        name: as_theirs(model, name, theirs.get_parameter(there)).clone()
        for name, there in exported.items()
    }
    start = {name: value.clone() for name, value in by_name.items()}
    generator = torch.Generator().manual_seed(member.seed)
    leaves, masks, updates = [], {}, {}
    for name, value in by_name.items():
        match member.entries.get(name):
            case None:
                continue
            case LowRank(rank, scale):
                down = torch.empty(rank, value.shape[1])
                torch.nn.init.kaiming_uniform_(down, a=math.sqrt(5), generator=generator)
                up = torch.zeros(value.shape[0], rank)
                pair = [matrix.double().requires_grad_(True) for matrix in (down, up)]
                updates[name] = (*pair, scale)
                leaves += pair
                continue
            case Indices(flat):
                mask = torch.zeros(value.numel(), dtype=torch.bool)
                mask[torch.from_numpy(flat)] = True
            case _:
                mask = torch.ones(value.numel(), dtype=torch.bool)
        masks[name] = mask.view(value.shape)
        leaves.append(value.requires_grad_(True))

    def values():
        added = {n: start[n] + scale * up @ down for n, (down, up, scale) in updates.items()}
        return by_name | added

    optimizer = torch.optim.AdamW(leaves, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    order = np.random.default_rng(member.seed)
    rows_that_train = order.permutation(len(train.row_indices))[: recipe.train_rows]
    chosen = np.concatenate([np.flatnonzero(train.row == row) for row in rows_that_train])
    steps = -(-len(chosen) // recipe.batch_size) * recipe.epochs
    name = {"constant": "constant_with_warmup", "linear": "linear"}[recipe.schedule]
    schedule = get_scheduler(name, optimizer, math.ceil(recipe.warmup * steps), steps)
    for _ in range(recipe.epochs):
        permutation = order.permutation(len(chosen))
        for first in range(0, len(chosen), recipe.batch_size):
            index = chosen[permutation[first : first + recipe.batch_size]]
            current = {exported[n]: as_theirs(model, n, v) for n, v in values().items()}
            losses = [
                loss_of(
                    task,
                    torch.func.functional_call(theirs, current, kwargs=kwargs),
                    kwargs.get("labels"),
                    weights,
                )
                for kwargs in batches(task, train, index)
            ]
            torch.stack(losses).mean().backward()
            for trained, mask in masks.items():
                by_name[trained].grad *= mask
            torch.nn.utils.clip_grad_norm_(leaves, recipe.max_grad_norm)
            optimizer.step()
            for trained, mask in masks.items():
                by_name[trained].data.copy_(torch.where(mask, by_name[trained], start[trained]))
            optimizer.zero_grad()
            schedule.step()
    return {name: value.detach() for name, value in values().items()}


@pytest.fixture
def last_is_best(monkeypatch):
    """The last epoch is the best, because the loop ends there."""
    order = itertools.count()

    def evaluated(*arguments):
        evaluations = evaluate_runs(*arguments)
        for evaluation in evaluations:
            vars(evaluation)["order"] = next(order)
        return evaluations

    monkeypatch.setattr(recipe, "evaluate_runs", evaluated)
    monkeypatch.setattr(Evaluation, "first_score", property(lambda self: vars(self)["order"]))


def assert_ends_there(model, rows, task, members, weights=None):
    """Check that every member's parameters equal the loop's."""
    atol = TOLERANCE_OF_ROUNDED if model.config.model_type in ROUNDED else TOLERANCE
    for run in train_side_by_side(model, rows, task, members, lambda report: None):
        assert run.best_epoch == run.recipe.epochs > 1
        expected = parameters_after(model, rows, task, run, weights)
        trained = model.parameters | changed_tensors(model.parameters, run.delta)
        parameters = {name: trained[name] for name in expected}
        torch.testing.assert_close(parameters, expected, rtol=0, atol=atol)


@pytest.mark.usefixtures("last_is_best")
@pytest.mark.parametrize(("family", "case", "runs"), CASES)
def test_training_ends_where_transformers_and_adamw_end(family, case, runs, directory, monkeypatch):
    # Such runs train one by one on a CPU, to save time.
    monkeypatch.setattr(groups, "runs_at_once", lambda model, train, members: len(members))
    if runs == 1:
        # Every length of texts gets a pass.
        monkeypatch.setattr(packing, "TOKENS_PER_PASS", 1)
    task, kind = examples.TASKS[case[0]], case[1]
    rows = examples.examples_of(task, examples.tokens(task, directory, rows=ROWS[task.kind]))
    model = pretrained(directory, task)
    members = [member(kind, model, seed=3, **settings) for settings in SETTINGS[-runs:]]
    assert_ends_there(model, rows, task, members)


@pytest.mark.usefixtures("last_is_best")
@pytest.mark.parametrize("kind", ["layernorm", "full"])
@pytest.mark.parametrize("task", ["mnli", "toxic", "ud_ewt"])
def test_training_with_class_weights_ends_where_torchs_weighted_losses_end(task, kind, tiny_bert):
    task = examples.TASKS[task]
    if task.kind == "tokens":
        task = task.replace(labels=("DT", "NN", "VB"))
    rows = examples.examples_of(task, examples.tokens(task, tiny_bert, rows=14))
    train = rows["train"]
    # The training rows determine the weights.
    chosen = np.random.default_rng(3).permutation(14)[:12]
    index = np.flatnonzero(np.isin(train.row, chosen))
    if task.kind == "multilabel":
        having = train.labels[index].sum(0)
        weights = (12 - having) / having
    else:
        labels = np.concatenate([np.atleast_1d(train.labels[number]) for number in index])
        weights = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    model = pretrained(tiny_bert, task)
    settings = {"train_rows": 12, "class_weights": "balanced"}
    members = [member(kind, model, seed=3, **of, **settings) for of in SETTINGS[:2]]
    assert_ends_there(model, rows, task, members, torch.from_numpy(weights))
