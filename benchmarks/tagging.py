"""Train MiniLM for part-of-speech tagging with the Trainer, as a reference for subtune's scores.

    python -m benchmarks.tagging --ud-ewt-dir /path/to/ud_ewt

Prints one line of JSON. BitFit is trained for one epoch with seed 0. The label of a word is
predicted at its first subword token. Long sentences are truncated, which removes 94 of the 204,577
words in the training set and none in the dev set.
"""

import argparse
import json
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    set_seed,
)
from transformers.utils import logging

from benchmarks.inputs import MAX_LENGTH, MINILM, linear_recipe
from benchmarks.trainer import Clock, run_trainer
from subtune.core.errors import SubtuneError
from subtune.data.corpora import read_words
from subtune.data.sources import official_files
from subtune.models.model_files import package_directory
from subtune.tasks import TASKS

TASK = TASKS["ud_ewt"]
# The label of tokens that the loss ignores.
NO_LABEL = -100
LEARNING_RATE, SEED = 5e-3, 0

# A sentence: its words in ``form`` and their part-of-speech tags in ``xpos``.
Row = dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tagging", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--ud-ewt-dir", type=Path, required=True, help="directory of the CoNLL-U files"
    )
    parser.add_argument(
        "--rows", type=int, help="use the first ROWS sentences of each split (default: all)"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        paths = official_files(str(options.ud_ewt_dir), TASK)
        train_rows, dev_rows = (
            [row for _, row in islice(read_words(paths[split], ("form", "xpos")), options.rows)]
            for split in ("train", "validation")
        )
    except SubtuneError as problem:
        parser.exit(1, f"{problem}\n")
    print(json.dumps(train(train_rows, dev_rows)), flush=True)


def train(train_rows: list[Row], dev_rows: list[Row]) -> dict[str, float]:
    """Train one run, and evaluate it on the dev set.

    ``accuracy`` is a share of all words in the dev set. ``seconds`` is the time of training with
    evaluation, ``seconds_of_epochs`` without it, and ``processor_seconds`` the CPU time with
    evaluation, which depends less on other programs.
    """
    directory = package_directory(MINILM)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    labels = TASK.labels or ()
    train_examples, dev_examples = (
        _tokenize(tokenizer, rows, labels) for rows in (train_rows, dev_rows)
    )
    words = sum(len(row["form"]) for row in dev_rows)
    set_seed(SEED)
    model = AutoModelForTokenClassification.from_pretrained(directory, num_labels=len(labels))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith(".bias") or name.startswith("classifier."))
    clock = Clock()
    started = time.process_time()
    trainer = run_trainer(
        model,
        linear_recipe(LEARNING_RATE, epochs=1),
        SEED,
        clock,
        {},
        train_dataset=train_examples,
        eval_dataset=dev_examples,
        data_collator=DataCollatorForTokenClassification(tokenizer, label_pad_token_id=NO_LABEL),
        preprocess_logits_for_metrics=_predict_labels,
        # Truncated words have no prediction and count as errors.
        compute_metrics=lambda pair: {"accuracy": count_correct_words(*pair) / words},
    )
    processor = time.process_time() - started
    return {
        "accuracy": max(
            row["eval_accuracy"] for row in trainer.state.log_history if "eval_accuracy" in row
        ),
        "seconds": clock.total,
        "seconds_of_epochs": sum(clock.epochs),
        "processor_seconds": processor,
    }


def count_correct_words(predicted: np.ndarray, numbers: np.ndarray) -> int:
    """Count the words whose predicted tag is correct.

    Both arrays are ``[sentences, tokens]``. Predictions are padded with `NO_LABEL`; the correct
    tags are `NO_LABEL` at all but a word's first token.
    """
    return int(np.sum((predicted == numbers) & (numbers != NO_LABEL)))


def _predict_labels(logits: Tensor, _: Tensor) -> Tensor:
    return logits.argmax(dim=-1)


def _tokenize(
    tokenizer: Any, rows: list[Row], labels: tuple[str, ...]
) -> list[dict[str, list[int]]]:
    """Tokenize sentences, and label the first token of each word with the number of its tag."""
    examples = []
    for row in rows:
        encoded = tokenizer(
            row["form"], is_split_into_words=True, truncation=True, max_length=MAX_LENGTH
        )
        numbers = [NO_LABEL] * len(encoded["input_ids"])
        before = None
        for token, word in enumerate(encoded.word_ids()):
            if word is not None and word != before:
                numbers[token] = labels.index(row["xpos"][word])
            before = word
        examples.append({**encoded, "labels": numbers})
    return examples


if __name__ == "__main__":
    main()
