"""Part-of-speech tagging by Hugging Face's Trainer on MiniLM, to compare with subtune's scores.

    python -m benchmarks.tagging --ud-ewt-dir /path/to/ud_ewt --method bitfit --learning-rate 5e-3

Prints one line of JSON. Every word is tagged at its first word piece. Sentences that are too long
are cut off, which costs 94 of the training set's 204,577 words and none of the
development set's.
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

from benchmarks.inputs import MAX_LENGTH, MINILM, recipe
from benchmarks.trainer import Clock, arguments
from subtune.core.errors import SubtuneError
from subtune.data.corpora import conllu_sentences
from subtune.models.model_files import package_directory
from subtune.tasks import TASKS

# The label of tokens that the Trainer leaves out of the loss.
NO_LABEL = -100
METHODS = ("full", "bitfit")
SPLITS = ("train", "dev")

# Words in column ``form``, and their tags in ``xpos``.
Row = dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tagging", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--ud-ewt-dir", type=Path, required=True, help="the treebank's CoNLL-U files"
    )
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, help="of each split; without it, all")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        rows = {split: _rows(options.ud_ewt_dir, split, options.rows) for split in SPLITS}
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
    """Train one run on the sentences of ``train`` and evaluate it on those of ``dev``.

    Returns:
        The best accuracy over epochs, a share of all words of ``dev``; the seconds of training with
        evaluation, and of the epochs without; the processor's seconds of training with evaluation,
        which hold on a machine that others use too.
    """
    directory = package_directory(MINILM)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    labels = TASKS["ud_ewt"].labels or ()
    examples = {split: _examples(tokenizer, rows[split], labels) for split in SPLITS}
    words = sum(len(row["form"]) for row in rows["dev"])
    set_seed(seed)
    model = AutoModelForTokenClassification.from_pretrained(directory, num_labels=len(labels))
    _select(model, method)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=arguments(recipe(learning_rate, epochs), seed, folder),
            train_dataset=examples["train"],
            eval_dataset=examples["dev"],
            data_collator=DataCollatorForTokenClassification(
                tokenizer, label_pad_token_id=NO_LABEL
            ),
            preprocess_logits_for_metrics=_predicted,
            # Words that were cut off are in no batch, and count as wrong.
            compute_metrics=lambda pair: {"accuracy": correct_words(*pair) / words},
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


def correct_words(predicted: np.ndarray, numbers: np.ndarray) -> int:
    """Return how many words have the predicted tag.

    Args:
        predicted: ``[sentences, tokens]``; the Trainer pads short batches with `NO_LABEL`.
        numbers: the same of tags; `NO_LABEL` at tokens that no word is tagged at.
    """
    return int(np.sum((predicted == numbers) & (numbers != NO_LABEL)))


def _select(model: nn.Module, method: str) -> None:
    """Let a method's tensors train, and the classifier."""
    for name, parameter in model.named_parameters():
        biases = name.endswith(".bias") or name.startswith("classifier.")
        parameter.requires_grad_(method == "full" or biases)


def _predicted(logits: Tensor, _: Tensor) -> Tensor:
    return logits.argmax(dim=-1)


def _examples(
    tokenizer: Any, rows: list[Row], labels: tuple[str, ...]
) -> list[dict[str, list[int]]]:
    """Return each sentence's inputs; a word's first piece has the number of its tag."""
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


def _rows(directory: Path, split: str, count: int | None) -> list[Row]:
    """The first sentences of a split."""
    path = directory / f"en_ewt-ud-{split}.conllu"
    if not path.is_file():
        raise SubtuneError(
            f"--ud-ewt-dir: found no {path}, expected the treebank's split {split!r}"
        )
    return [row for _, row in islice(conllu_sentences(path, ("form", "xpos")), count)]


if __name__ == "__main__":
    main()
