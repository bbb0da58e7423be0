"""The same run by Hugging Face's Trainer: how far scores and times are from a record's.

    python benchmarks/trainer.py results/glue-minilm RUN [RUN …] --seeds 0 1

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
)

from subtune.metrics import score
from subtune.runs import records
from subtune.selection import resolve
from subtune.specs import RunSpec


def canonical(name: str, prefix: str) -> str:
    return name.removeprefix(f"{prefix}.")


def train(results: Path, spec: RunSpec, seed: int, folder: str) -> tuple[float, float]:
    """The best dev score over epochs, and the seconds that training took."""
    task = spec.tokens.data.task
    directory = results / "models" / spec.model.id
    model = AutoModelForSequenceClassification.from_pretrained(
        directory, num_labels=task.num_labels
    )
    prefix = model.base_model_prefix
    shapes = {canonical(name, prefix): tuple(p.shape) for name, p in model.named_parameters()}
    entries = resolve(spec.selection, shapes, seed)
    if any(index is not None for index in entries.values()):
        raise SystemExit(f"run {spec.id} trains parts of tensors, which the Trainer cannot")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(canonical(name, prefix) in entries)
    tokens = datasets.load_from_disk(results / "tokens" / spec.tokens.key)
    recipe = spec.recipe
    arguments = TrainingArguments(
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
        seed=seed,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    split, metric = task.evaluation[0], task.metrics[0]
    trainer = Trainer(
        model=model,
        args=arguments,
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
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as folder:
                value, seconds = train(options.results, spec, seed, folder)
            print(f"{run}  {task.title}  seed {seed}  Trainer  {value:.4f}  {seconds:.0f} s")


if __name__ == "__main__":
    main()
