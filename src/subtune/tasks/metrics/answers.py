"""Answers in words, compared as SQuAD v1.1 compares them.

Source: Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text" (2016),
section 6.1, and the evaluation script that is published with the data.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

# Only ASCII: quotation marks and dashes of other scripts stay.
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def normalised(text: str) -> str:
    """Return the text in lower case, without punctuation and articles.

    One space stands between words. Punctuation goes first and leaves no space: "well-known" becomes
    one word, and the "a" of "a-b" is no article.
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def mean(
    score: Callable[[str, Sequence[str]], float],
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
) -> float:
    """Return the mean of a score, `exact_match` or `f1`, over questions."""
    return float(np.mean(list(map(score, predictions, references))))


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """Return 1 if the prediction equals one of the accepted answers, both normalised, else 0.

    An empty prediction equals an answer that has only articles and punctuation.
    """
    return float(normalised(prediction) in map(normalised, answers))


def f1(prediction: str, answers: Sequence[str]) -> float:
    """Return the best F1, from 0 to 1, of the prediction's words against an accepted answer's.

    A word counts as often as both have it. Without a common word F1 is 0, also where neither text
    has any.
    """
    predicted = Counter(normalised(prediction).split())
    best = 0.0
    for answer in answers:
        accepted = Counter(normalised(answer).split())
        if shared := (predicted & accepted).total():
            best = max(best, 2 * shared / (predicted.total() + accepted.total()))
    return best
