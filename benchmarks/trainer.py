"""Train with the Trainer of transformers, as a user would."""

import tempfile
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from benchmarks.inputs import MINILM, Setting, synchronise
from subtune.methods.selection import Whole
from subtune.models.model_files import package_directory
from subtune.runs.spec import Recipe
from subtune.tasks import Task
from subtune.tasks.metrics import compute_metrics
from subtune.training.recipe import Run


@dataclass(frozen=True)
class Outcome:
    """The best dev score of a run over its epochs, and the seconds of training with evaluation."""

    score: float
    seconds: float


def train(setting: Setting, member: Run) -> Outcome:
    """Train a run with the same model, token ids and hyperparameters as in subtune."""
    clock = Clock()
    trainer = _run_trainer(setting, member, clock)
    first = f"eval_{setting.task.metrics[0]}"
    scores = [row[first] for row in trainer.state.log_history if first in row]
    return Outcome(max(scores), clock.total)


def time_epochs(setting: Setting, member: Run, **options: Any) -> list[float]:
    """Train a run with further ``options`` of ``TrainingArguments``; return seconds per epoch."""
    clock = Clock()
    _run_trainer(setting, member, clock, **options)
    return clock.epochs


class Clock(TrainerCallback):
    """Measures the seconds of each epoch without evaluation, and of the training with it."""

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.epochs: list[float] = []
        self._started = time.monotonic()

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        self._epoch = time.monotonic()

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        synchronise()
        self.epochs.append(time.monotonic() - self._epoch)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.total = time.monotonic() - self._started


def _run_trainer(setting: Setting, member: Run, clock: Clock, **options: Any) -> Trainer:
    """Train a run. Only whole tensors can be trained, because the Trainer has no masks."""
    task, tokens = setting.task, setting.tokens
    set_seed(member.seed)
    model = AutoModelForSequenceClassification.from_pretrained(
        setting.directory, num_labels=task.outputs
    )
    if not all(isinstance(entry, Whole) for entry in member.entries.values()):
        raise SystemExit("this run trains parts of tensors, which the Trainer does not support")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.removeprefix(f"{model.base_model_prefix}.") in member.entries)
    tokenizer = AutoTokenizer.from_pretrained(package_directory(MINILM))
    return run_trainer(
        model,
        member.recipe,
        member.seed,
        clock,
        options,
        train_dataset=tokens["train"],
        eval_dataset=tokens[task.evaluation[0]],
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda pair: _scores(task, *map(np.asarray, pair)),
    )


def _scores(task: Task, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    predictions = logits.argmax(axis=1) if task.labels else logits[:, 0]
    return compute_metrics(task.of_kind.value_type, task.metrics, list(predictions), list(labels))


def run_trainer(
    model: nn.Module,
    recipe: Recipe,
    seed: int,
    clock: Clock,
    options: dict[str, Any],
    **settings: Any,
) -> Trainer:
    """Train the parameters of a model with ``requires_grad``, and evaluate after each epoch.

    Args:
        options: further arguments of ``TrainingArguments``.
        settings: further arguments of ``Trainer``.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            learning_rate=recipe.learning_rate,
            per_device_train_batch_size=recipe.batch_size,
            per_device_eval_batch_size=64,
            num_train_epochs=recipe.epochs,
            lr_scheduler_type="linear" if recipe.schedule == "linear" else "constant_with_warmup",
            warmup_steps=recipe.warmup,  # values below 1 are a share of all steps
            weight_decay=recipe.weight_decay,
            max_grad_norm=recipe.max_grad_norm,
            bf16=recipe.precision == "bf16",
            use_cpu=not torch.cuda.is_available(),
            seed=seed,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=torch.cuda.is_available(),
            **options,
        )
        trainer = Trainer(model=model, args=arguments, callbacks=[clock], **settings)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return trainer
