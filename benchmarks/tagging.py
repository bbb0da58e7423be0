"""Train MiniLM for part-of-speech tagging with the Trainer, as a reference for subtune's scores.

    python -m benchmarks.tagging --ud-ewt-dir /path/to/ud_ewt --method bitfit --learning-rate 5e-3

Prints one line of JSON. The label of a word is predicted at its first subword token. Long sentences
are truncated, which removes 94 of the 204,577 words in the training set and none in the dev set.
"""

import argparse
import json
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    PrinterCallback,
    Trainer,
    set_seed,
)
from transformers.utils import logging

from benchmarks.inputs import MAX_LENGTH, MINILM, linear_recipe
from benchmarks.trainer import Clock, training_arguments
from subtune.core.errors import SubtuneError
from subtune.data.corpora import read_words
from subtune.models.model_files import package_directory
from subtune.tasks import TASKS

# The label of tokens that the loss ignores.
NO_LABEL = -100
METHODS = ("full", "bitfit")
SPLITS = ("train", "dev")

# A sentence: its words in ``form`` and their part-of-speech tags in ``xpos``.
Row = dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tagging", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--ud-ewt-dir", type=Path, required=True, help="directory of the CoNLL-U files"
    )
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--rows", type=int, help="use the first ROWS sentences of each split (default: all)"
    )
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        rows = {split: _read_sentences(options.ud_ewt_dir, split, options.rows) for split in SPLITS}
    except SubtuneError as problem:
        parser.exit(1, f"{problem}\n")
    outcome = train(rows, options.method, options.learning_rate, options.epochs, options.seed)
    settings = {name: value for name, value in vars(options).items() if name != "ud_ewt_dir"}
    print(json.dumps(outcome | settings), flush=True)


def train(
    rows: dict[str, list[Row]],
    method: str,
    learning_rate: float,
    epochs: int,
    seed: int,
) -> dict[str, float]:
    """Train one run, and evaluate it on the dev set after each epoch.

    ``accuracy`` is the best over epochs, as a share of all words in the dev set. ``seconds`` is the
    time of training with evaluation, ``seconds_of_epochs`` without it, and ``processor_seconds``
    the CPU time with evaluation, which depends less on other programs.
    """
    directory = package_directory(MINILM)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    labels = TASKS["ud_ewt"].labels or ()
    examples = {split: _tokenize(tokenizer, rows[split], labels) for split in SPLITS}
    words = sum(len(row["form"]) for row in rows["dev"])
    set_seed(seed)
    model = AutoModelForTokenClassification.from_pretrained(directory, num_labels=len(labels))
    _select_parameters(model, method)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=training_arguments(linear_recipe(learning_rate, epochs), seed, folder),
            train_dataset=examples["train"],
            eval_dataset=examples["dev"],
            data_collator=DataCollatorForTokenClassification(
                tokenizer, label_pad_token_id=NO_LABEL
            ),
            preprocess_logits_for_metrics=_predict_labels,
            # Truncated words have no prediction and count as errors.
            compute_metrics=lambda pair: {"accuracy": count_correct_words(*pair) / words},
            callbacks=[clock],
        )
        trainer.remove_callback(PrinterCallback)
        started = time.process_time()
        trainer.train()
        processor = time.process_time() - started
    history = trainer.state.log_history
    return {
        "accuracy": max(row["eval_accuracy"] for row in history if "eval_accuracy" in row),
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


def _select_parameters(model: nn.Module, method: str) -> None:
    """Set ``requires_grad`` for the parameters of a method and the classifier."""
    for name, parameter in model.named_parameters():
        biases = name.endswith(".bias") or name.startswith("classifier.")
        parameter.requires_grad_(method == "full" or biases)


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


def _read_sentences(directory: Path, split: str, count: int | None) -> list[Row]:
    """Read the first ``count`` sentences of a split (None: all)."""
    path = directory / f"en_ewt-ud-{split}.conllu"
    if not path.is_file():
        raise SubtuneError(
            f"--ud-ewt-dir: {path} is missing, expected the {split} split of UD English EWT"
        )
    return [row for _, row in islice(read_words(path, ("form", "xpos")), count)]


if __name__ == "__main__":
    main()
