"""Part-of-speech tagging by Hugging Face's Trainer, on MiniLM: what our own scores stand beside.

    python -m benchmarks.tagging --ud-ewt-dir /path/to/ud_ewt --method bitfit --learning-rate 5e-3

Prints one line of JSON. Every word is tagged at its first word piece. Sentences that are too long
are cut off, which costs 94 of the training set's 204,577 words and none of the
development set's.
"""

import argparse
import json
import tempfile
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
from subtune.models.files import directory_of_package
from subtune.tasks import TASKS

# The label of tokens that the Trainer leaves out of the loss.
NO_LABEL = -100
METHODS = ("full", "bitfit")

Sentence = list[tuple[str, str]]


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
    sentences = {
        split: _sentences(options.ud_ewt_dir / f"en_ewt-ud-{split}.conllu")[: options.rows]
        for split in ("train", "dev")
    }
    outcome = train(sentences, options.method, options.learning_rate, options.epochs, options.seed)
    settings = {name: value for name, value in vars(options).items() if name != "ud_ewt_dir"}
    print(json.dumps(outcome | settings), flush=True)


def train(
    sentences: dict[str, list[Sentence]],
    method: str,
    learning_rate: float,
    epochs: int,
    seed: int,
) -> dict[str, float]:
    """Train one run on the sentences of ``train``, and evaluate it on those of ``dev``.

    Returns:
        The best accuracy over epochs, a share of all words of ``dev``; the seconds of training with
        evaluation, and of the epochs without.
    """
    directory = directory_of_package(MINILM)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    labels = TASKS["ud_ewt"].labels or ()
    examples = {split: _examples(tokenizer, rows, labels) for split, rows in sentences.items()}
    words = sum(len(sentence) for sentence in sentences["dev"])
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
            compute_metrics=lambda pair: {"accuracy": np.sum(pair[0] == pair[1]) / words},
            callbacks=[clock],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    history = trainer.state.log_history
    return {
        "accuracy": max(row["eval_accuracy"] for row in history if "eval_accuracy" in row),
        "seconds": clock.total,
        "seconds_of_epochs": sum(clock.epochs),
    }


def _select(model: nn.Module, method: str) -> None:
    """Let a method's tensors train, and the classifier."""
    for name, parameter in model.named_parameters():
        biases = name.endswith(".bias") or name.startswith("classifier.")
        parameter.requires_grad_(method == "full" or biases)


def _predicted(logits: Tensor, _: Tensor) -> Tensor:
    return logits.argmax(dim=-1)


def _examples(
    tokenizer: Any, sentences: list[Sentence], labels: tuple[str, ...]
) -> list[dict[str, list[int]]]:
    """What the model reads of each sentence; a word's first piece has the number of its tag."""
    examples = []
    for sentence in sentences:
        words = [word for word, _ in sentence]
        encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=MAX_LENGTH)
        numbers = [NO_LABEL] * len(encoded["input_ids"])
        before = None
        for token, word in enumerate(encoded.word_ids()):
            if word is not None and word != before:
                numbers[token] = labels.index(sentence[word][1])
            before = word
        examples.append({**encoded, "labels": numbers})
    return examples


def _sentences(path: Path) -> list[Sentence]:
    """The words of a CoNLL-U file with their tags in column XPOS."""
    sentences: list[Sentence] = [[]]
    for line in path.read_text(encoding="utf-8").split("\n"):
        cells = line.split("\t")
        if not line:
            sentences.append([])
        elif cells[0].isdigit():
            sentences[-1].append((cells[1], cells[4]))
    return [sentence for sentence in sentences if sentence]


if __name__ == "__main__":
    main()
