"""The sentences of the mini part-of-speech task."""

from collections import Counter, defaultdict

import pytest

from subtune.data import builtin
from subtune.tasks import TASKS

TASK = TASKS["ud_ewt"]


@pytest.fixture(scope="module")
def splits():
    return builtin.splits(TASK)


def tags_of_words(rows):
    """Return how often each word has each tag."""
    counts = defaultdict(Counter)
    for row in rows:
        for word, tag in zip(row["form"], row["xpos"], strict=True):
            counts[word.lower()][tag] += 1
    return counts


def test_a_words_most_frequent_tag_is_often_wrong(splits):
    """So that what tells nothing of the context is far from the best."""
    of_train = tags_of_words(splits["train"])
    of_dev = tags_of_words(splits["validation"])
    best = {word: tags.most_common(1)[0][0] for word, tags in of_train.items()}
    right = sum(tags[best[word]] for word, tags in of_dev.items() if word in best)
    assert 0.6 < right / sum(map(Counter.total, of_dev.values())) < 0.85


def test_words_of_many_senses_have_the_tags_of_each(splits):
    counts = tags_of_words(splits["train"])
    assert {"DT", "IN", "WDT"} <= set(counts["that"])
    assert {"PRP", "PRP$"} <= set(counts["her"])
    assert {"TO", "IN"} <= set(counts["to"])
