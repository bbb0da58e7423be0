"""Checks of the user's own rules, estimators and scorers, before they are used in an experiment."""

import inspect
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from subtune.core.errors import SubtuneError, locate_errors, suggest_name
from subtune.core.files import hash_bytes
from subtune.core.user_code import (
    OWN_FUNCTION,
    describe_user_error,
    find_entry_points,
    import_own_function,
)
from subtune.methods.baselines import Estimator, compute_class_logits, make_estimator
from subtune.methods.roles import LAYERS
from subtune.methods.rules import (
    ALLOWED,
    BUILT_IN,
    RULES,
    Rule,
    draw_arrays,
    find_rule,
    score_entries,
)

# The shapes of the tensors on which rules are called: vectors, and matrices of three forms.
IN_LAYER_TRIED = {
    "attention.self.query.weight": (64, 64),
    "attention.output.LayerNorm.weight": (64,),
    "intermediate.dense.weight": (128, 64),
    "intermediate.dense.bias": (128,),
    "output.dense.weight": (64, 128),
    "output.dense.bias": (64,),
}
TENSORS = {
    f"{LAYERS}{layer}.{name}": shape for layer in (0, 1) for name, shape in IN_LAYER_TRIED.items()
}
MATRICES = {name: shape for name, shape in TENSORS.items() if len(shape) > 1}
# The shape of the largest matrix of BERT base.
LARGEST_MATRIX = (3072, 768)
TEXTS_TRIED = (
    "good film",
    "bad film",
    "a long dull story",
    "a short warm story",
    "not bad",
    "so good",
)
# The size of the table to which estimators are fitted.
ROWS_TRIED, FEATURES_TRIED = 200, 64
# Calls the function of this module with a name in another process, where hashes of strings differ.
COMMAND = "from subtune.config import code_checks as c; import sys; print(c.{}(*sys.argv[1:]))"


class Check(NamedTuple):
    """The name of a check, and its result: ``passed``, ``failed: …`` or ``skipped: …``."""

    name: str
    result: str


def check_code(place: str) -> Iterator[Check]:
    """Check a rule, an estimator or a scorer, and yield the result of each check.

    Args:
        place: the value of ``by``, ``estimator`` or ``metrics`` in a configuration.

    Raises:
        SubtuneError: the code cannot be imported, or is none of the three.
    """
    kind = find_kind(place)
    yield Check("kind", f"passed: {kind}")
    yield from {"ranking": _try_ranking, "baseline": _try_estimator, "metric": _try_metric}[kind](
        place
    )


def find_kind(place: str) -> str:
    """Return ``ranking``, ``baseline`` or ``metric``, depending on a function's arguments."""
    if place.endswith((".yaml", ".yml")):
        raise SubtuneError(f"{place}: to check a configuration, use `subtune plan {place}`")
    from sklearn.metrics import get_scorer_names

    if place in BUILT_IN or place in find_entry_points(RULES, BUILT_IN):
        return "ranking"
    if place in get_scorer_names():
        return "metric"
    if not OWN_FUNCTION.fullmatch(place):
        if "." not in place or "/" in place:
            raise SubtuneError(
                f"{place}: no paper, ranking or metric has this name, and there is no such folder; "
                "expected one of these, a function such as my_rules.py:gem, or a class such as "
                "sklearn.naive_bayes.ComplementNB"
            )
        return "baseline"
    function = import_own_function(place)
    parameters = inspect.signature(function).parameters.values()
    needed = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    if not needed:
        return "baseline"
    if not {*needed}.isdisjoint(ALLOWED):
        return "ranking"
    # A scorer has the arguments estimator, X, y_true and keyword arguments.
    positional = [p for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    is_misspelled = any(suggest_name(name, ALLOWED, cutoff=0.75) for name in needed)
    if len(positional) > 2 and not is_misspelled and not isinstance(function, type):
        return "metric"
    raise SubtuneError(
        f"{place}: found arguments {', '.join(needed)}; expected those of a ranking "
        f"({', '.join(ALLOWED)}), a scorer from sklearn.metrics.make_scorer, or a function without "
        "arguments that returns an estimator"
    )


def run_check(name: str, check: Callable[[], Any]) -> Check:
    """Run a check, which returns its result or None, and fails if it raises an exception."""
    try:
        result = check()
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        return Check(name, f"failed: {describe_user_error(error, None)}")
    return Check(name, result if isinstance(result, str) else "passed")


def _repeat(function: Callable[..., str], *arguments: str) -> Iterator[Check]:
    """Check that a function of this module returns the same hash again, and in a new process."""
    first = function(*arguments)
    again = "passed" if function(*arguments) == first else "failed: they differ"
    yield Check("the same numbers twice", again)
    command = [sys.executable, "-c", COMMAND.format(function.__name__), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    same = "passed" if done.stdout.strip() == first else "failed: they differ"
    yield Check("the same numbers in a new process", same)


def hash_scores(place: str) -> str:
    """Return a hash of the scores of a rule on random matrices."""
    rule = find_rule(place)
    return _hash_arrays(_score(rule, draw_arrays(rule, MATRICES)))


def _try_ranking(place: str) -> Iterator[Check]:
    rule = find_rule(place)
    tensors = draw_arrays(rule, MATRICES)

    def require_any_order() -> None:
        turned = {need: dict(reversed(of.items())) for need, of in tensors.items()}
        same, other = _score(rule, tensors), _score(rule, turned)
        if not all(np.array_equal(same[name], other[name]) for name in same):
            raise SubtuneError("the scores depend on the order of the tensors")

    def require_few_ties() -> None:
        scores = np.concatenate([array.ravel() for array in _score(rule, tensors).values()])
        share = 1 - len(np.unique(scores)) / len(scores)
        if share > 0.5:
            raise SubtuneError(f"{share:.0%} of the scores are equal, so the first entries win")

    finite = run_check("a finite number for each entry", lambda: _score(rule, tensors))
    yield finite
    if finite.result != "passed":
        return
    # A rule can be for matrices only.
    vectors = run_check("vectors", lambda: _score(rule, draw_arrays(rule, TENSORS)))
    yield vectors._replace(result=vectors.result.replace("failed", "not possible", 1))
    zeros = {
        need: {name: array * (array.ndim > 1) for name, array in of.items()}
        for need, of in draw_arrays(rule, TENSORS).items()
    }
    in_vectors = run_check("zeros, as in untrained biases", lambda: _score(rule, zeros))
    is_for_matrices = vectors.result != "passed"
    yield in_vectors._replace(result="skipped") if is_for_matrices else in_vectors
    yield run_check("few equal scores", require_few_ties)
    yield from _repeat(hash_scores, place)
    if rule.scores_all_at_once:
        yield run_check("any order of the tensors", require_any_order)
    else:
        yield Check("any order of the tensors", "skipped: it is called for one tensor at a time")
    drawn = draw_arrays(rule, {f"{LAYERS}0.intermediate.dense.weight": LARGEST_MATRIX})
    started = time.perf_counter()
    costs = run_check("time and memory", lambda: _score(rule, drawn))
    seconds = time.perf_counter() - started
    # Tracing takes time, so the memory is that of a second call.
    tracemalloc.start()
    run_check("memory", lambda: _score(rule, drawn))
    megabytes = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    (rows, columns), spent = LARGEST_MATRIX, f"{seconds:.2f} s and {megabytes:.0f} MB"
    yield costs._replace(result=f"{costs.result}, {spent} for a matrix {rows} × {columns}")
    control = "; an experiment also trains as many random entries" if rule.files else ""
    yield Check("better than random entries", f"skipped: this needs training{control}")


def _score(rule: Rule, tensors: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    with locate_errors(rule.title):
        return score_entries(rule, tensors, np.random.default_rng(0))


def hash_predictions(place: str, reads: str) -> str:
    """Return a hash of an estimator's predictions on random features or on texts."""
    return _hash_arrays({"predictions": _fit_and_predict(place, reads)})


def _try_estimator(place: str) -> Iterator[Check]:
    estimator, fits = _make(place), list[str]()
    for reads in ("embeddings", "tf-idf", "texts"):
        check = run_check(f"reads: {reads}", partial(_fit_and_predict, place, reads))
        fits += [reads] if check.result == "passed" else []
        # An estimator usually reads only texts, or only numbers.
        yield check._replace(result=check.result.replace("failed", "not possible", 1))
    if not fits:
        yield Check("fit and predict", "failed: with none of the inputs")
        return
    yield from _repeat(hash_predictions, place, fits[0])
    has = [n for n in ("predict_proba", "decision_function") if hasattr(estimator, n)]
    without = "skipped: the predicted class has probability 1"
    yield Check("probabilities", f"passed: from {has[0]}" if has else without)


def _make(place: str) -> Any:
    """Build an estimator of classes or of numbers, with seed 0."""
    described = Estimator.model_validate({"estimator": place, "reads": "texts"})
    return make_estimator(described, None, seed=0)


def _fit_and_predict(place: str, reads: str) -> np.ndarray:
    from sklearn.base import is_classifier

    try:
        fitted, features = _fit_to_random_table(place, reads)
        predicted = np.asarray(fitted.predict(features), float)
        if is_classifier(fitted):
            _require_likeliest(fitted, features, predicted)
            predicted = compute_class_logits(fitted, features, outputs=2)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise SubtuneError(describe_user_error(error, None)) from error
    if not np.isfinite(predicted).all():
        raise SubtuneError("a prediction is not a finite number")
    return predicted


def _require_likeliest(fitted: Any, features: Any, predicted: np.ndarray) -> None:
    """Raise a `SubtuneError` if most predicted classes do not have the largest probability."""
    if hasattr(fitted, "predict_proba"):
        largest = np.argmax(fitted.predict_proba(features), axis=1)
        share = np.mean(largest != predicted)
        if share > 0.5:
            raise SubtuneError(
                f"`predict` and `predict_proba` name different classes in {share:.0%} of the rows"
            )


def _fit_to_random_table(place: str, reads: str) -> tuple[Any, Any]:
    """Fit an estimator to a random table with two classes; return it, and its features."""
    from scipy import sparse

    rng, estimator = np.random.default_rng(0), _make(place)
    labels = np.arange(ROWS_TRIED) % 2
    features: Any
    if reads == "texts":
        features = [TEXTS_TRIED[n] for n in rng.integers(len(TEXTS_TRIED), size=ROWS_TRIED)]
    else:
        features = rng.normal(size=(ROWS_TRIED, FEATURES_TRIED)) + labels[:, None]
        # TF-IDF is sparse, and has no negative numbers.
        features = sparse.csr_array(np.abs(features)) if reads == "tf-idf" else features
    return estimator.fit(features, labels), features


def _try_metric(name: str) -> Iterator[Check]:
    from subtune.tasks.scorers import compute_score, score_random_and_perfect

    rng, found, passed = np.random.default_rng(0), list[str](), False
    for kind, outputs in (("two classes", 2), ("several classes", 4), ("numbers", 1)):
        # Labels are positive, because some scorers divide by them. Predictions need not be.
        labels = rng.integers(outputs, size=80) if outputs > 1 else rng.uniform(1, 5, size=80)
        logits = rng.normal(3, 2, size=(80, outputs))
        try:
            chance, best = score_random_and_perfect(name, logits, labels)
        except SubtuneError as error:
            yield Check(kind, f"not possible: {error}")
            continue
        found.append(kind)
        if best > chance:
            passed, result = True, "passed"
        else:
            # A scorer may be for classes only.
            result = "not possible" if passed and kind == "numbers" else "failed"
            result += f": perfect predictions score {best:.3g}, random ones {chance:.3g}"
        yield Check(kind, result)
        order = rng.permutation(80)
        again = compute_score(name, logits[order], labels[order])
        is_same = bool(np.isclose(again, chance, rtol=1e-9, atol=1e-12))
        changed = f"failed: {chance:.6g} becomes {again:.6g}"
        yield Check(f"any order of examples, {kind}", "passed" if is_same else changed)
    if not found:
        yield Check("a finite score", "failed: for none of these")


def _hash_arrays(arrays: dict[str, np.ndarray]) -> str:
    return hash_bytes(b"".join(array.tobytes() for _, array in sorted(arrays.items())))
