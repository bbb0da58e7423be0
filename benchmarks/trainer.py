"""The same run by Hugging Face's Trainer: what a user would write.

Whole tensors only: the Trainer knows no masks.
"""

import tempfile
import time

import numpy as np
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

from benchmarks.inputs import Setting
from benchmarks.outcomes import Outcome
from subtune.metrics import score
from subtune.training.recipe import Member


def train(setting: Setting, member: Member) -> Outcome:
    """Train one run: the same model, tokens, learning rate, batch size, epochs and schedule."""
    task, tokens = setting.task, setting.tokens
    set_seed(member.seed)
    model = AutoModelForSequenceClassification.from_pretrained(
        setting.directory, num_labels=task.num_labels
    )
    if any(entry is not None for entry in member.entries.values()):
        raise SystemExit("this run trains parts of tensors, which the Trainer cannot")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.removeprefix(f"{model.base_model_prefix}.") in member.entries)
    split, metric = task.evaluation[0], task.metrics[0]
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=_arguments(member, folder),
            train_dataset=tokens["train"],
            eval_dataset=tokens[split],
            data_collator=DataCollatorWithPadding(AutoTokenizer.from_pretrained(setting.directory)),
            compute_metrics=lambda found: score(task, np.asarray(found[0]), np.asarray(found[1])),
        )
        trainer.remove_callback(PrinterCallback)
        started = time.monotonic()
        trainer.train()
        seconds = time.monotonic() - started
    rows = [row for row in trainer.state.log_history if "eval_loss" in row]
    best = max(rows, key=lambda row: row[f"eval_{metric}"])
    return Outcome(best[f"eval_{metric}"], best["eval_loss"], seconds)


def _arguments(member: Member, folder: str) -> TrainingArguments:
    recipe = member.recipe
    return TrainingArguments(
        output_dir=folder,
        learning_rate=recipe.learning_rate,
        per_device_train_batch_size=recipe.batch_size,
        per_device_eval_batch_size=64,
        num_train_epochs=recipe.epochs,
        lr_scheduler_type="linear" if recipe.schedule == "linear" else "constant_with_warmup",
        warmup_steps=recipe.warmup,  # below 1 it is a share of all steps
        weight_decay=recipe.weight_decay,
        max_grad_norm=recipe.max_grad_norm,
        bf16=recipe.precision == "bf16",
        seed=member.seed,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
    )
