"""Answers in words, compared as SQuAD v1.1 compares them.

Source: Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text" (2016),
section 6.1, and the evaluation script that is published with the data.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

# Of ASCII only: quotation marks and dashes of other scripts stay.
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def normalised(text: str) -> str:
    """The text in lower case, without punctuation and articles, with one space between words.

    Punctuation goes first and leaves no space: "well-known" becomes one word, and the "a" of
    "a-b" is no article.
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1 where the prediction equals one of the answers, both normalised, and else 0.

    Args:
        prediction: any text; an empty one equals an answer of articles and punctuation alone.
        answers: the accepted ones, at least one.
    """
    return float(normalised(prediction) in map(normalised, answers))


def f1(prediction: str, answers: Sequence[str]) -> float:
    """The best F1 over the answers, from 0 to 1: words of the prediction against an answer's.

    A word counts as often as both have it. Without a word in common F1 is 0, also where neither
    text has any.

    Args:
        prediction: any text.
        answers: the accepted ones, at least one.
    """
    return max(_overlap(prediction, answer) for answer in answers)


def _overlap(prediction: str, answer: str) -> float:
    """F1 of two bags of words: the harmonic mean of shared / predicted and shared / accepted."""
    predicted = Counter(normalised(prediction).split())
    accepted = Counter(normalised(answer).split())
    shared = (predicted & accepted).total()
    return 2 * shared / (predicted.total() + accepted.total()) if shared else 0.0
