"""The peer that our tagging is compared with: it learns, and it is scored by words."""

import json
import subprocess
import sys

import numpy as np
import pytest
from benchmarks.tagging import NO_LABEL, correct_words

from tests.helpers.project import ROOT

TAGS = {"the": "DT", "cats": "NNS", "sleep": "VBP"}


def tagging(folder, *arguments):
    command = [sys.executable, "-m", "benchmarks.tagging", "--ud-ewt-dir", folder, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def sentence(words):
    """Return the lines of one sentence in CoNLL-U."""
    lines = (
        f"{number}\t{word}\t_\t_\t{TAGS[word]}" + "\t_" * 5
        for number, word in enumerate(words, start=1)
    )
    return "\n".join(lines) + "\n\n"


@pytest.fixture
def treebank(tmp_path):
    """Sentences of 3 to 12 words. They are more than one batch of evaluation holds."""
    text = "".join(sentence([*TAGS] * (1 + number % 4)) for number in range(80))
    for split in ("train", "dev"):
        (tmp_path / f"en_ewt-ud-{split}.conllu").write_text(text)
    return tmp_path


@pytest.mark.nightly
@pytest.mark.parametrize(("method", "rate"), [("full", "1e-3"), ("bitfit", "1e-2")])
def test_a_tag_that_a_word_always_has_is_learnt_for_all_words(treebank, method, rate):
    done = tagging(treebank, "--method", method, "--learning-rate", rate, "--epochs", "6")
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert line["accuracy"] == 1
    assert line["seconds"] >= line["seconds_of_epochs"] > 0
    assert (line["method"], line["learning_rate"], line["seed"]) == (method, float(rate), 0)


def test_padding_does_not_count_as_a_word():
    numbers = np.array([[NO_LABEL, 1, 2, NO_LABEL], [NO_LABEL, 3, NO_LABEL, NO_LABEL]])
    predicted = np.array([[0, 1, 1, 0], [0, 3, NO_LABEL, NO_LABEL]])
    assert correct_words(predicted, numbers) == 2
