"""Baselines, which fit an estimator of scikit-learn and train nothing in the pretrained model."""

import inspect
import itertools
import json
import sys
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from subtune.core.errors import (
    SubtuneError,
    explain_pydantic_errors,
    format_allowed,
    join_names,
    locate_errors,
)
from subtune.core.ids import HashableModel, canonical_json
from subtune.core.user_code import (
    OWN_FUNCTION,
    import_own_function,
    locate_user_errors,
)
from subtune.methods.selection import AbstractSelection, Entries, Mask, Shapes, TrainingCost

# The method that always makes the same prediction.
CONSTANT = "constant"
# Probabilities are at least this large, so that their logarithms are finite.
SMALLEST_PROBABILITY = 1e-12
# The logit of a class without training examples. It is never the largest, because the largest logit
# of the other classes is at least 0.
ABSENT = -100.0


def _read_places(given: Any) -> Any:
    places = (given,) if isinstance(given, str) else given
    if isinstance(places, list | tuple) and len(places) not in (1, 2):
        raise ValueError("expected one estimator, or two: for classes, and for numbers")
    return places


def _read_settings(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    try:
        written = tuple((name, canonical_json(given[name])) for name in sorted(given))
        # In JSON, keys are strings.
        if any(json.loads(text) != _as_lists(given[name]) for name, text in written):
            raise ValueError
        return written
    except (TypeError, ValueError):
        expected = "expected strings, finite numbers, true, false, null, lists or mappings"
        raise ValueError(expected) from None


def _as_lists(value: Any) -> Any:
    return [*map(_as_lists, value)] if isinstance(value, tuple | list) else value


Places = Annotated[
    tuple[str, ...],
    BeforeValidator(_read_places, json_schema_input_type=str | list[str]),
]
Settings = Annotated[
    tuple[tuple[str, str], ...],
    BeforeValidator(_read_settings, json_schema_input_type=dict[str, Any]),
]


class Baseline(AbstractSelection):
    """An estimator that scikit-learn fits. The pretrained model is not trained."""

    usual_work = TrainingCost.NOTHING
    reads_texts: ClassVar[bool] = False
    """whether the texts themselves are read, without token ids and without a model"""

    def select_encoder_entries(self, shapes: Shapes, seed: int, mask: Mask) -> Entries:
        return {}


class RegressionSettings(HashableModel):
    """The settings of a regression. There are none."""


class Embeddings(Baseline):
    """A regression on embeddings of the frozen model (`subtune.training.embeddings`)."""

    embeddings: RegressionSettings

    def describe(self, names: Collection[str] | None = None) -> str:
        return "nothing: logistic or ridge regression on frozen embeddings"


class TfIdf(Baseline):
    """A regression on TF-IDF features of words and characters (`subtune.training.tf_idf`)."""

    reads_texts = True
    tf_idf: RegressionSettings

    def describe(self, names: Collection[str] | None = None) -> str:
        return "nothing: logistic or ridge regression on TF-IDF of words and letters"


class Estimator(Baseline):
    """Any estimator that follows scikit-learn's conventions (`subtune.training.estimators`).

    Attributes:
        estimator: a class such as ``sklearn.naive_bayes.ComplementNB``, or a function without
            arguments that returns an estimator, such as ``my_models.py:make``; or two of them, of
            which the first predicts classes and the second numbers.
        reads: what the estimator is fitted to: texts, or their TF-IDF features or embeddings.
        settings: pairs of an argument of the class and its value, encoded as JSON.
        seeded: whether the run's seed is used as ``random_state``.
    """

    estimator: Places
    reads: Literal["texts", "tf-idf", "embeddings"]
    settings: Settings = ()
    seeded: bool = True

    @property
    def reads_texts(self) -> bool:  # type: ignore[override]
        return self.reads != "embeddings"

    @cached_property
    def arguments(self) -> dict[str, Any]:
        return {name: json.loads(value) for name, value in self.settings}

    @cached_property
    def json_types(self) -> dict[str, Any]:
        settings = {"settings": self.arguments} if self.settings else {}
        return super().json_types | {"estimator": [*self.estimator]} | settings

    def place(self, has_numbers: bool) -> str:
        """Return the place of the estimator for tasks with numbers, or with classes."""
        return self.estimator[-1 if has_numbers else 0]

    def describe(self, names: Collection[str] | None = None) -> str:
        return f"nothing: {' or '.join(self.estimator)} on {self.reads}"


def make_estimator(selection: Estimator, has_numbers: bool | None, seed: int | None) -> Any:
    """Build an unfitted estimator, in which ``seed`` replaces each missing ``random_state``.

    Raises:
        SubtuneError: the estimator cannot be imported or built, or does not predict classes or, if
            ``has_numbers``, numbers; one of them if ``has_numbers`` is None.
    """
    from sklearn.base import is_classifier, is_regressor

    place = selection.place(bool(has_numbers))
    if OWN_FUNCTION.fullmatch(place):
        make = import_own_function(place)
    else:
        module, _, name = place.rpartition(".")
        if Path(f"{module}.py").is_file():
            raise SubtuneError(f"found {place!r}, expected {module}.py:{name}")
        if not module or name == "py":
            raise SubtuneError(
                f"found {place!r}, expected a class such as sklearn.naive_bayes.ComplementNB, or a "
                "function such as my_models.py:make"
            )
        make = import_own_function(f"{module}:{name}")
        if not _is_installed(make):
            raise SubtuneError(
                f"found {place!r}, which is not installed; write {module}:{name}, so that a change "
                "of its code is noticed"
            )
    with locate_user_errors(place):
        estimator = make(**selection.arguments)
        kind = type(estimator).__name__
        for name in ("fit", "predict", "get_params"):
            if not hasattr(estimator, name):
                raise SubtuneError(f"found {kind}, which has no method {name!r}")
        predicted = {"classes": is_classifier(estimator), "numbers": is_regressor(estimator)}
        if has_numbers is not None:
            del predicted["classes" if has_numbers else "numbers"]
        if not any(predicted.values()):
            raise SubtuneError(
                f"found {kind}, expected an estimator that predicts {' or '.join(predicted)}; a "
                "list of two has one for classes, and one for numbers"
            )
        if seed is not None:
            set_missing(estimator, "random_state", seed)
    return estimator


def describe_baselines(given: Mapping[str, Any]) -> dict[str, Any]:
    """Describe baselines as in a configuration, with absolute paths of files.

    ``given`` maps names to unfitted estimators, or to settings as in a configuration.
    """
    if not isinstance(given, Mapping):
        raise SubtuneError(
            "expected a mapping from names to estimators, such as {'trees': "
            "RandomForestClassifier()}"
        )
    described = {}
    for name, value in given.items():
        settings: Any = value if isinstance(value, Mapping) else {"estimator": value}
        estimator = settings.get("estimator")
        with locate_errors(str(name)):
            if not isinstance(estimator, str | list | tuple | None):
                others = {key: each for key, each in settings.items() if key != "estimator"}
                settings = describe_estimator(estimator) | others
            if unknown := [key for key in settings if key not in Estimator.model_fields]:
                raise SubtuneError(format_allowed(str(unknown[0]), Estimator.model_fields))
            with explain_pydantic_errors(""):
                selection = Estimator.model_validate({**settings})
        places = (
            str(Path(place).resolve()) if ".py:" in place else place
            for place in selection.estimator
        )
        described[str(name)] = selection.replace(estimator=tuple(places)).json_types
    return described


def describe_estimator(estimator: Any) -> dict[str, Any]:
    """Return the settings of a baseline that fits a copy of an estimator to embeddings.

    Raises:
        SubtuneError: the estimator cannot be described by a class and JSON values.
    """
    from sklearn.base import is_classifier

    if isinstance(estimator, type):
        name = estimator.__name__
        raise SubtuneError(f"found the class {name}, expected an estimator such as {name}()")
    kind = type(estimator)
    # Names such as ``sklearn.ensemble._forest`` are private.
    parts = itertools.takewhile(lambda part: not part.startswith("_"), kind.__module__.split("."))
    settings: dict[str, Any] = {"estimator": f"{'.'.join(parts)}.{kind.__qualname__}"}
    try:
        if not _is_installed(kind):
            settings["estimator"] = f"{inspect.getfile(kind)}:{kind.__qualname__}"
        usual = kind().get_params(deep=False)
        given = estimator.get_params(deep=False)
        # NaN differs from itself.
        changed = {n: v for n, v in given.items() if v != usual[n] and not v != v != usual[n]}
        settings |= {"reads": "embeddings", "settings": changed}
        described = Estimator.model_validate(settings)
        made = make_estimator(described, not is_classifier(estimator), None)
        if type(made).__qualname__ == kind.__qualname__:
            return described.json_types
    except (Exception, SystemExit) as error:  # any class may raise anything
        # The import of a script explains itself.
        if kind.__module__ == "__main__" and isinstance(error, SubtuneError):
            raise
    raise SubtuneError(
        f"found an estimator of type {kind.__name__} that cannot be written to a configuration; "
        "write a function that returns it, and pass its place, such as {'estimator': "
        "'my_models.py:make', 'reads': 'embeddings'}"
    )


def _is_installed(kind: Any) -> bool:
    """Return whether a class or function belongs to an installed library."""
    module = sys.modules.get(getattr(kind, "__module__", ""))
    file = getattr(module, "__file__", None) or ""
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def set_missing(estimator: Any, name: str, value: Any) -> bool:
    """Set a parameter of an estimator and of its parts where it is None; return if there is any."""
    found = estimator.get_params()
    names = [key for key in found if key == name or key.endswith(f"__{name}")]
    estimator.set_params(**{key: value for key in names if found[key] is None})
    return bool(names)


def compute_class_logits(estimator: Any, features: Any, outputs: int) -> np.ndarray:
    """Compute the logits of classes ``[n, outputs]``; `ABSENT` for classes that were not fitted.

    ``n`` is the number of rows. A `SubtuneError` is raised if the predicted classes or their
    probabilities cannot be used.
    """
    if not hasattr(estimator, "classes_"):
        raise SubtuneError("after `fit`, it has no attribute `classes_`")
    classes = np.asarray(estimator.classes_, int)
    found = np.asarray(estimator.predict(features))
    predicted = found.reshape(-1, 1) == classes
    rows = np.shape(features)[0] if hasattr(features, "shape") else len(features)
    if len(predicted) != rows or not predicted.any(axis=1).all():
        some = ", ".join(map(str, found.ravel()[:3]))
        raise SubtuneError(
            f"`predict` returned {len(predicted):,} values for {rows:,} rows, such as {some}; "
            f"expected one of the classes {join_names(map(str, classes), 5)} for each row"
        )
    values = np.where(predicted, 0.0, ABSENT)
    if hasattr(estimator, "predict_proba"):
        probabilities = np.asarray(estimator.predict_proba(features), float)
        if probabilities.shape != predicted.shape:
            raise SubtuneError(
                f"`predict_proba` returned an array of shape {probabilities.shape}, expected "
                f"{predicted.shape}: a probability for each row and class"
            )
        if (np.abs(probabilities.sum(axis=1) - 1) > 0.01).any():
            raise SubtuneError("`predict_proba` returned a row whose sum is not 1")
        values = np.log(np.maximum(probabilities, SMALLEST_PROBABILITY))
    elif hasattr(estimator, "decision_function"):
        decisions = np.asarray(estimator.decision_function(features))
        if decisions.ndim == 1:
            decisions = np.stack([-decisions / 2, decisions / 2], axis=1)
        # Some estimators have a decision for each pair of classes.
        values = decisions if decisions.shape == predicted.shape else values
    # The predicted class may have another threshold than the largest probability.
    largest = values.max(axis=1, keepdims=True)
    values = np.where(predicted, largest, np.minimum(values, np.nextafter(largest, -np.inf)))
    logits = np.full((len(values), outputs), ABSENT)
    logits[:, classes] = np.maximum(values - largest, ABSENT)
    return logits
