"""The same run by Hugging Face's Trainer: how far scores and times are from a record's.

    python -m benchmarks.trainer results/glue-minilm RUN [RUN …] --seeds 0 1

Reads each run's spec from the record, trains the same model on the same tokens with the same
learning rate, batch size, epochs, schedule and trainable parameters, and prints one line per seed
beside the record's. Whole tensors only: the Trainer knows no masks. Needs the extra
`pip install -e '.[benchmarks]'`.
"""

import argparse
import tempfile
import time
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

from subtune.metrics import score
from subtune.models.shapes import local_config, shapes_of
from subtune.runs import records
from subtune.selection import resolve
from subtune.tasks import Task
from subtune.training.recipe import Member


def train(
    directory: Path, tokens: datasets.DatasetDict, task: Task, member: Member
) -> tuple[float, float]:
    """The best dev score over epochs, and the seconds that training took, evaluation included."""
    set_seed(member.seed)
    model = AutoModelForSequenceClassification.from_pretrained(
        directory, num_labels=task.num_labels
    )
    if any(entry is not None for entry in member.entries.values()):
        raise SystemExit("this run trains parts of tensors, which the Trainer cannot")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(_canonical(name, model.base_model_prefix) in member.entries)
    split, metric = task.evaluation[0], task.metrics[0]
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=_arguments(member, folder),
            train_dataset=tokens["train"],
            eval_dataset=tokens[split],
            data_collator=DataCollatorWithPadding(AutoTokenizer.from_pretrained(directory)),
            compute_metrics=lambda found: score(task, np.asarray(found[0]), np.asarray(found[1])),
        )
        started = time.monotonic()
        trainer.train()
        seconds = time.monotonic() - started
    scores = [row[f"eval_{metric}"] for row in trainer.state.log_history if f"eval_{metric}" in row]
    return max(scores), seconds


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
    )


def _canonical(name: str, prefix: str) -> str:
    return name.removeprefix(f"{prefix}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    store = options.results / "runs"
    for run in options.runs:
        spec = records.read_spec(store, run)
        task = spec.tokens.data.task
        ours = records.read_scores(store, run)["scores"][task.evaluation[0]][task.metrics[0]]
        seconds = pd.read_csv(store / run / "history.csv")["seconds"].sum()
        print(f"{run}  {task.title}  seed {spec.seed}  subtune  {ours:.4f}  {seconds:.0f} s")
        directory = options.results / "models" / spec.model.id
        shapes = shapes_of(local_config(directory), task.num_labels)
        tokens = datasets.load_from_disk(options.results / "tokens" / spec.tokens.key)
        for seed in options.seeds:
            member = Member(resolve(spec.selection, shapes, seed), spec.recipe, seed)
            value, seconds = train(directory, tokens, task, member)
            print(f"{run}  {task.title}  seed {seed}  Trainer  {value:.4f}  {seconds:.0f} s")


if __name__ == "__main__":
    main()
