"""Regressions on TF-IDF features of words and characters, a method without a pretrained model.

Ridge regression predicts numbers. Logistic regressions predict classes (one-vs-rest), or each label
of a multi-label task. Shapes: ``n`` rows of the dataset, ``f`` features, ``o`` outputs, ``k``
regressions.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from subtune.core.process import log_line
from subtune.runs.spec import FitRecipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.tasks.sentences import TEXT_COLUMNS
from subtune.training.embeddings import (
    SOLVER_STEPS,
    evaluate_baseline,
    fit_regression,
    list_pair_features,
)
from subtune.training.evaluation import TrainingResult
from subtune.training.training_set import draw_training_indices

# Word unigrams and bigrams. Punctuation counts as a word, so that every text has at least one word.
WORDS: dict[str, Any] = {"token_pattern": r"\w+|[^\w\s]+", "ngram_range": (1, 2)}
# Character n-grams within a word, including the space before and after the word.
LETTERS: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (2, 5)}
# The maximum number of word features, and of character features. If a training set has more, the
# most frequent ones are used.
FEATURES = 100_000
# The inverse penalty ``C`` of logistic regression. Among 1, 10 and 100, the value 10 is the best or
# close to the best on SST-2 and CoLA, with 1,000 and with 5,000 training examples.
INVERSE_PENALTY = 10
# At most this many characters of the training texts are read, which takes about half a minute on
# one core. If there are more, long texts are truncated.
MOST_CHARACTERS = 20_000_000
# If ``non-zero features * k`` exceeds `MOST_SOLVED`, the exact solver would take longer than half a
# minute on one core, so stochastic gradient descent is used. It makes at most `PASSES` passes over
# the data, and at most ``MOST_PASSED / (non-zero features * k)``, but at least one.
MOST_SOLVED, MOST_PASSED, PASSES = 2.5e8, 6e9, 5

# One sequence of texts per text column: one column for single texts, and two columns for pairs.
Texts = Sequence[Sequence[str]]


@dataclass(frozen=True)
class TextFeatures:
    """TF-IDF features, fitted to the texts of a training set.

    Attributes:
        vectorizer: the fitted vectorizer from scikit-learn.
        characters: the number of characters of a text that are read; None means all.
    """

    vectorizer: Any
    characters: int | None

    def transform(self, texts: Texts) -> Any:
        """Compute the features ``[n, f]`` of texts."""
        cut = [[text[: self.characters] for text in column] for column in texts]
        return build_features([self.vectorizer.transform(column) for column in cut])


@dataclass(frozen=True)
class TextRegression:
    """A fitted regression on TF-IDF features.

    Attributes:
        features: computes the features of texts.
        weight: the coefficients ``[f, k]``. A task with two classes has one regression.
        bias: the intercepts ``[k]``.
    """

    task: TaskSpec
    features: TextFeatures
    weight: np.ndarray
    bias: np.ndarray

    def predict_logits(self, texts: Texts) -> np.ndarray:
        """Compute the logits ``[n, o]`` of texts; in a regression task, the predicted numbers."""
        return self.logits(self.features.transform(texts))

    def logits(self, features: Any) -> np.ndarray:
        """Compute logits ``[n, o]`` from features ``[n, f]``."""
        decisions = np.asarray(features @ self.weight + self.bias, "f")
        if self.task.of_kind.problem_type != "single_label_classification":
            return decisions
        if self.task.outputs == 2:
            return np.hstack([-decisions / 2, decisions / 2])
        # The results are log-probabilities of the one-vs-rest regressions. The softmax of these
        # logits divides the probability of each class by the sum of all classes' probabilities.
        return -np.logaddexp(0, -decisions)


def fit_tf_idf(
    examples: Mapping[str, Examples], task: TaskSpec, recipe: FitRecipe, seed: int
) -> TrainingResult:
    """Fit a regression to the texts of the training set, and evaluate it."""
    started = time.monotonic()
    regression, features, index = fit_texts(examples["train"], task, recipe, seed)

    def predict(split: Examples) -> np.ndarray:
        return regression.predict_logits(read_text_columns(split, task))

    fitted = {"classifier.weight": regression.weight, "classifier.bias": regression.bias}
    logits = regression.logits(features)
    return evaluate_baseline(fitted, task, examples, index, recipe, logits, predict, started)


def fit_texts(
    train: Examples, task: TaskSpec, recipe: FitRecipe, seed: int
) -> tuple[TextRegression, Any, np.ndarray]:
    """Fit a regression; return it, its features ``[n, f]`` and the indices of its examples."""
    from sklearn.preprocessing import label_binarize

    index = draw_training_indices(train, recipe.train_rows, np.random.default_rng(seed))
    text_features, features = fit_text_features(read_text_columns(train, task, index))
    targets = train.labels[index]
    if task.labels is not None and targets.ndim == 1:
        # The regressions are one-vs-rest: their targets ``[n, k]`` are 0 and 1.
        targets = label_binarize(targets, classes=np.arange(task.outputs))
    regression = _choose_solver(features, targets, task, recipe, seed)
    weight, bias = fit_regression(lambda _: regression, features, targets, task.outputs)
    weight = np.ascontiguousarray(weight.T)
    return TextRegression(task, text_features, weight, bias), features, index


def fit_text_features(texts: Texts) -> tuple[TextFeatures, Any]:
    """Fit TF-IDF features to texts; return them and the features of the texts, ``[n, f]``."""
    characters = _find_cut([len(text) for column in texts for text in column])
    if characters is not None:
        log_line(f"TF-IDF: to save time, only {characters:,} characters of each text are read")
        texts = [[text[:characters] for text in column] for column in texts]
    vectorizer = make_vectorizer()
    vectors = vectorizer.fit_transform([text for column in texts for text in column])
    rows = len(texts[0])
    starts = range(0, vectors.shape[0], rows)
    features = build_features([vectors[start : start + rows] for start in starts])
    return TextFeatures(vectorizer, characters), features


def read_text_columns(examples: Examples, task: TaskSpec, index: np.ndarray | None = None) -> Texts:
    """Return the texts of all examples, or of those at ``index``, by column."""
    columns = [examples.column(name) for name in TEXT_COLUMNS[: len(task.text)]]
    return columns if index is None else [[column[row] for row in index] for column in columns]


def make_vectorizer() -> Any:
    """Build an unfitted scikit-learn vectorizer for words and character n-grams."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_union

    settings: dict[str, Any] = {"sublinear_tf": True, "max_features": FEATURES}
    return make_union(TfidfVectorizer(**WORDS, **settings), TfidfVectorizer(**LETTERS, **settings))


def build_features(vectors: Sequence[Any]) -> Any:
    """Build sparse features ``[n, f]`` of rows from one TF-IDF matrix per text column."""
    from scipy import sparse

    if len(vectors) == 1:
        return vectors[0]
    u, v = map(sparse.csr_array, vectors)
    # Solvers sum in the order of a row's entries, which depends on the formats of the parts.
    parts = [sparse.csr_array(part) for part in list_pair_features(u, v, 1)]
    return sparse.hstack(parts, format="csr")


def _find_cut(lengths: Sequence[int]) -> int | None:
    """Find how many characters of each text to read, given the lengths of texts; None means all."""
    ascending = np.sort(lengths)
    if ascending.sum() <= MOST_CHARACTERS:
        return None
    # For each text, the total number of characters if longer texts are truncated to its length.
    totals = ascending.cumsum() + ascending * np.arange(len(lengths))[::-1]
    short = int((totals <= MOST_CHARACTERS).sum())
    rest = MOST_CHARACTERS - int(ascending[:short].sum())
    return max(1, rest // (len(lengths) - short))


def _choose_solver(
    features: Any, targets: np.ndarray, task: TaskSpec, recipe: FitRecipe, seed: int
) -> Any:
    """Choose the solver of a ridge or logistic regression, and return the unfitted regression."""
    from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier

    if task.labels is None:
        return Ridge()
    weights = {"class_weight": recipe.class_weights}
    work = features.nnz * targets.shape[1]
    if work <= MOST_SOLVED:
        return LogisticRegression(C=INVERSE_PENALTY, max_iter=SOLVER_STEPS, **weights)
    passes = max(1, min(PASSES, int(MOST_PASSED / work)))
    log_line(f"TF-IDF: fitted by stochastic gradient descent in {passes} passes, to save time")
    alpha = 1 / (INVERSE_PENALTY * features.shape[0])
    settings = {"max_iter": passes, "tol": None, "random_state": seed}
    return SGDClassifier(loss="log_loss", alpha=alpha, **settings, **weights)
