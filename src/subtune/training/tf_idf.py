"""Regressions on TF-IDF of words and letters: the method that needs no pretrained model.

Features are the words and pairs of words of a text, and the strings of two to five letters within
its words, as scikit-learn's ``TfidfVectorizer`` weighs them. Numbers are predicted by ridge
regression. Classes are predicted by a logistic regression of each class against all others, and
several labels by one of each label.

Shapes: ``n`` rows, ``f`` features, ``o`` outputs, ``k`` regressions.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from subtune.core.process import report
from subtune.runs.spec import Fit
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.tasks.sentences import TEXT_COLUMNS
from subtune.training.embeddings import ABSENT, STEPS, end_fit
from subtune.training.evaluation import Result
from subtune.training.training_set import training_examples

# Words and pairs of words. Punctuation is a word, so that every text has one.
WORDS: dict[str, Any] = {"token_pattern": r"\w+|[^\w\s]+", "ngram_range": (1, 2)}
# Strings of two to five letters within a word and the spaces around it.
LETTERS: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (2, 5)}
# The most features of words, and of letters: the most frequent ones are kept.
FEATURES = 100_000
# The inverse penalty of logistic regression. Of 1, 10 and 100, it is best or close to it on SST-2
# and CoLA, with 1,000 and with 5,000 rows.
INVERSE_PENALTY = 10
# A regression is fitted to so many rows that ``letters * (READING + k)`` is at most this:
# half a minute on a core. Reading a letter takes as long as `READING` regressions on it.
MOST_WORK, READING = 2.5e8, 35
# The code for a task with classes, in three lines.
SCIKIT_LEARN = (
    f"words = TfidfVectorizer(sublinear_tf=True, **{WORDS}); "
    f"letters = TfidfVectorizer(sublinear_tf=True, **{LETTERS}); "
    f"make_pipeline(make_union(words, letters), LogisticRegression(C={INVERSE_PENALTY}))"
    ".fit(texts, labels)"
)

# The texts of rows, by column: one list, or two for pairs.
Texts = Sequence[Sequence[str]]


@dataclass(frozen=True)
class TextRegression:
    """A fitted regression.

    Attributes:
        task: the task.
        vectorizer: the fitted vectorizer.
        weight: ``[f, k]``; a task with two classes has one regression.
        bias: ``[k]``.
    """

    task: TaskSpec
    vectorizer: Any
    weight: np.ndarray
    bias: np.ndarray

    def predict_logits(self, texts: Texts) -> np.ndarray:
        """Return logits ``[n, o]`` of rows, or the predicted numbers of a regression."""
        return self.logits(join_features([self.vectorizer.transform(column) for column in texts]))

    def logits(self, features: Any) -> np.ndarray:
        """Return logits ``[n, o]`` from features ``[n, f]``."""
        found = np.asarray(features @ self.weight + self.bias, "f")
        if self.task.of_kind.problem_type != "single_label_classification":
            return found
        if self.task.outputs == 2:
            return np.hstack([-found / 2, found / 2])
        # The softmax of these is each class's probability, divided by their sum.
        return -np.logaddexp(0, -found)


def fit(examples: Mapping[str, Examples], task: TaskSpec, recipe: Fit, seed: int) -> Result:
    """Fit a regression to the texts of training rows, and return its predictions.

    Args:
        examples: the training split and the evaluation splits, if any, with the texts of their
            rows (`subtune.data.load.read_examples`).
        seed: the seed of the training rows.
    """
    started = time.monotonic()
    regression, features, index = fit_texts(examples["train"], task, recipe, seed)
    computed = {
        split: regression.predict_logits(read_texts(examples[split], task))
        for split in filter(examples.__contains__, task.evaluation)
    }
    fitted = {"classifier.weight": regression.weight, "classifier.bias": regression.bias}
    result = Result(regression.weight.size + regression.bias.size)
    # Nothing but a classifier is trained.
    result.changes = {name: (float(np.abs(new).mean()), new.size) for name, new in fitted.items()}
    logits = regression.logits(features)
    return end_fit(result, task, examples, index, recipe, logits, computed, started)


def fit_texts(
    train: Examples, task: TaskSpec, recipe: Fit, seed: int
) -> tuple[TextRegression, Any, np.ndarray]:
    """Return a regression, and the features and indices of the rows to which it is fitted."""
    index = training_examples(train, recipe, np.random.default_rng(seed))
    texts = [[column[row] for row in index] for column in read_texts(train, task)]
    targets = _regression_targets(task, train.labels[index])
    letters = sum(len(text) for column in texts for text in column) / len(index)
    rows = max(1, int(MOST_WORK / letters / (READING + targets.shape[1])))
    if rows < len(index):
        report(f"TF-IDF: fitted to {rows:,} of {len(index):,} rows, to save time")
        index, targets, texts = index[:rows], targets[:rows], [column[:rows] for column in texts]
    vectorizer = make_vectorizer()
    read = vectorizer.fit_transform([text for column in texts for text in column])
    starts = range(0, read.shape[0], len(index))
    features = join_features([read[start : start + len(index)] for start in starts])
    if task.labels is None:
        from sklearn.linear_model import Ridge

        ridge = Ridge().fit(features, targets[:, 0])
        weight, bias = ridge.coef_[:, None], np.array([ridge.intercept_])
    else:
        fitted = [_fit_logistic(features, target, recipe) for target in targets.T]
        weight, bias = (np.stack(part, -1) for part in zip(*fitted, strict=True))
    return TextRegression(task, vectorizer, weight, bias), features, index


def read_texts(examples: Examples, task: TaskSpec) -> Texts:
    """Return the texts of all rows, by column."""
    return [examples.column(name) for name in TEXT_COLUMNS[: len(task.text)]]


def make_vectorizer() -> Any:
    """Return scikit-learn's vectorizer of words and letters, which is not fitted."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_union

    same: dict[str, Any] = {"sublinear_tf": True, "max_features": FEATURES}
    return make_union(TfidfVectorizer(**WORDS, **same), TfidfVectorizer(**LETTERS, **same))


def join_features(read: Sequence[Any]) -> Any:
    """Return the features of rows, a sparse matrix ``[n, f]``, from the TF-IDF of their texts.

    A single text's features are its TF-IDF. The features of a pair with TF-IDF u and v are u, v,
    |u − v|, the elementwise product u·v, and the sum of u·v.
    """
    from scipy import sparse

    if len(read) == 1:
        return read[0]
    u, v = read
    product = u.multiply(v)
    likeness = sparse.csr_matrix(product.sum(1))
    return sparse.hstack([u, v, abs(u - v), product, likeness], format="csr")


def _regression_targets(task: TaskSpec, labels: np.ndarray) -> np.ndarray:
    """Return what each regression is fitted to, ``[n, k]``: numbers, or 0 and 1."""
    if task.labels is None or labels.ndim > 1:
        return labels.reshape(len(labels), -1)
    classes = np.arange(task.outputs)
    return (labels[:, None] == classes[1 if len(classes) == 2 else 0 :]).astype(int)


def _fit_logistic(read: Any, target: np.ndarray, recipe: Fit) -> tuple[np.ndarray, float]:
    """Return the weight ``[f]`` and bias of a logistic regression."""
    from sklearn.linear_model import LogisticRegression

    if len(set(target)) == 1:
        return np.zeros(read.shape[1]), -ABSENT if target[0] else ABSENT
    settings = {"C": INVERSE_PENALTY, "max_iter": STEPS, "class_weight": recipe.class_weights}
    regression = LogisticRegression(**settings).fit(read, target)
    return regression.coef_[0], regression.intercept_[0]
