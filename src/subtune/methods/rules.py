"""Rules, which score the entries of tensors. A mask trains the entries with the highest scores.

A rule is a function. The names of its arguments say what it needs:

* ``weight``: the pretrained values of one tensor.
* ``gradient``: the gradient of the loss before fine-tuning, averaged over the training examples.
* ``fisher``: the Fisher information, which is the average of each example's squared gradient.
* ``hessian_gradient``: the product of the Hessian of the loss with the gradient
  (`subtune.training.gradients.hessian_times_gradient`).
* ``synflow_gradient``: the gradient of SynFlow's objective, which needs no examples
  (`subtune.training.gradients.synflow_gradient`).
* ``rng``: a `numpy.random.Generator`, seeded with the run's seed.

It is called for one tensor at a time, and returns an array of the tensor's shape. A rule with the
arguments ``weights``, ``gradients``, ``fishers``, ``hessian_gradients`` or ``synflow_gradients`` is
called once, with dictionaries of the arrays of all tensors by name, and returns such a dictionary.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from subtune.core.errors import (
    SubtuneError,
    format_allowed,
    join_names,
    locate_errors,
)
from subtune.core.user_code import (
    OWN_FUNCTION,
    describe_user_error,
    find_entry_points,
    hash_own_code,
    import_own_function,
    list_code_files,
)
from subtune.methods.roles import Shape
from subtune.methods.single_entries import split_by_tensor

# Maps the name of a tensor to an array of its shape.
Arrays = Mapping[str, np.ndarray]
RNG = "rng"
# The name of the rule by which `fractions` are ranked by default, and that of random controls.
FISHER, RANDOM = "fisher", "random"
# The arguments with the array of one tensor. With an ``s``, they are those of all tensors.
# `PER_TASK` depend on the task. The step `fisher` computes the Fisher information, and the step
# `gradient` computes `DERIVATIVES`.
SYNFLOW_GRADIENT = "synflow_gradient"
PER_TASK = ("gradient", FISHER, "hessian_gradient", SYNFLOW_GRADIENT)
DERIVATIVES = tuple(name for name in PER_TASK if name != FISHER)
OF_TENSOR = ("weight", *PER_TASK)
ALLOWED = (*OF_TENSOR, *(f"{name}s" for name in OF_TENSOR), RNG)
# The group of entry points of installed packages.
RULES = "subtune.rankings"


class Rule(NamedTuple):
    """A rule.

    Attributes:
        name: the name of the function.
        files: the files with the code of the function, its own file first; empty if it is built in.
        code_hash: the hash of all files; None for a built-in function, whose code has a version.
        needs: the names of `OF_TENSOR`, and `RNG`, that are arguments of the function.
    """

    name: str
    function: Callable[..., Any]
    files: Sequence[Path]
    code_hash: str | None = None

    def read_code(self) -> bytes:
        """Read its own file, or the source of a built-in function."""
        if self.files:
            return self.files[0].read_bytes()
        return inspect.getsource(self.function).encode()

    @property
    def title(self) -> str:
        return f"{self.files[0]}:{self.name}" if self.files else self.name

    @property
    def arguments(self) -> list[str]:
        parameters = inspect.signature(self.function).parameters.values()
        return [p.name for p in parameters if p.default is inspect.Parameter.empty]

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(name.removesuffix("s") for name in self.arguments)

    @property
    def depends_on_task(self) -> bool:
        return not self.needs.isdisjoint(PER_TASK)

    @property
    def reads_examples(self) -> bool:
        return not self.needs.isdisjoint({*PER_TASK} - {SYNFLOW_GRADIENT})

    @property
    def scores_all_at_once(self) -> bool:
        return any(f"{name}s" in self.arguments for name in OF_TENSOR)


def fisher(fisher: np.ndarray) -> np.ndarray:
    """Fisher information (LayerNorm paper, Eq. 2)."""
    return fisher


def magnitude(weight: np.ndarray) -> np.ndarray:
    """The largest weights."""
    return np.abs(weight)


def smallest_magnitude(weight: np.ndarray) -> np.ndarray:
    """The smallest weights."""
    return -np.abs(weight)


def gradient(gradient: np.ndarray) -> np.ndarray:
    """The largest gradients."""
    return np.abs(gradient)


def snip(weight: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The connection sensitivity of SNIP (Lee et al., 2019)."""
    return np.abs(weight * gradient)


def force(weight: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The saliency of FORCE (de Jorge et al., 2021), which keeps the sign."""
    return -weight * gradient


def taylor(weight: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """First-order Taylor importance (Molchanov et al., 2019)."""
    return (weight * gradient) ** 2


def grasp(weight: np.ndarray, hessian_gradient: np.ndarray) -> np.ndarray:
    """The score of GraSP (Wang et al., 2020), with the sign that Liu et al. (2025) use."""
    return weight * hessian_gradient


def synflow(weight: np.ndarray, synflow_gradient: np.ndarray) -> np.ndarray:
    """The score of SynFlow (Tanaka et al., 2020)."""
    return np.abs(weight * synflow_gradient)


def gem(weight: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The gradient relative to the weight."""
    return np.abs(gradient) / (np.abs(weight) + 1e-8)


def random(weight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random entries, as a control."""
    return rng.random(weight.shape)


_RULES = (
    *(fisher, magnitude, smallest_magnitude, gradient, snip, force, taylor, grasp, synflow, gem),
    random,
)
BUILT_IN: dict[str, Callable[..., Any]] = {rule.__name__: rule for rule in _RULES}


def find_rule(by: str) -> Rule:
    """Find a rule by the name of a built-in function or of an entry point, or by its place.

    A place is a file or a module with the name of a function, such as ``my_rules.py:gem``. Entry
    points are in the group `RULES`, and have the place of a function as their value.

    Raises:
        SubtuneError: there is no such rule, its code cannot be imported, or it has an argument that
            no rule has.
    """
    if by in BUILT_IN:
        return Rule(by, BUILT_IN[by], ())
    with locate_errors("by"):
        registered = find_entry_points(RULES, BUILT_IN)
        place = registered.get(by, by)
        if not OWN_FUNCTION.fullmatch(place):
            known = format_allowed(by, [*BUILT_IN, *registered])
            raise SubtuneError(f"{known}, or a function such as my_rules.py:gem")
        function, name = import_own_function(place), place.rpartition(":")[2]
        rule = Rule(name, function, list_code_files(place), hash_own_code([place]))
        if unknown := [name for name in rule.arguments if name not in ALLOWED]:
            raise SubtuneError(f"{by}: argument {format_allowed(unknown[0], ALLOWED)}")
        is_mixed = rule.scores_all_at_once and not rule.needs.isdisjoint({*rule.arguments} - {RNG})
        if is_mixed or not rule.needs - {RNG}:
            raise SubtuneError(
                f"{by}: found arguments {join_names(rule.arguments) or 'none'}, expected "
                f"{join_names(OF_TENSOR)}, or all of them with an s"
            )
    return rule


def score_entries(
    rule: Rule, arrays: Mapping[str, Arrays], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Call a rule, and return the scores of all entries in float64.

    Args:
        arrays: maps each name of `OF_TENSOR` that the rule needs to the arrays of all tensors.

    Raises:
        SubtuneError: the rule fails, or its result is not a finite number for each entry.
    """
    shapes = {name: array.shape for name, array in next(iter(arrays.values())).items()}
    others = {RNG: rng} if RNG in rule.needs else {}
    # A rule cannot change the arrays, which are used again for the next task.
    arrays = {
        name: {tensor: np.broadcast_to(array, array.shape) for tensor, array in by_tensor.items()}
        for name, by_tensor in arrays.items()
    }
    try:
        # What a rule prints does not belong to the output of a command.
        with np.errstate(all="ignore"), redirect_stdout(sys.stderr):
            if rule.scores_all_at_once:
                found = rule.function(**{f"{n}s": dict(a) for n, a in arrays.items()}, **others)
                _require_dictionary(found, shapes)
            else:
                found = {
                    tensor: rule.function(**{n: a[tensor] for n, a in arrays.items()}, **others)
                    for tensor in shapes
                }
            scores = {name: _to_real_numbers(found[name]) for name in shapes}
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        place = rule.files[0] if rule.files else None
        raise SubtuneError(describe_user_error(error, place)) from error
    for name, score in scores.items():
        if score.shape != shapes[name]:
            found_shape, expected = score.shape, shapes[name]
            raise SubtuneError(f"found shape {found_shape} for {name}, expected {expected}")
        if not np.isfinite(score).all():
            raise SubtuneError(f"found a score of {name} that is not a finite number")
    return scores


def _require_dictionary(found: Any, names: Iterable[str]) -> None:
    if not isinstance(found, Mapping):
        kind = type(found).__name__
        raise SubtuneError(f"found a result of the type {kind}, expected a dictionary of arrays")
    if missing := [name for name in names if name not in found]:
        raise SubtuneError(f"the result lacks the tensor {missing[0]}")


def _to_real_numbers(scores: Any) -> np.ndarray:
    array = np.asarray(scores)
    if array.dtype.kind not in "biuf":
        kind = array.dtype.name if array.ndim else type(scores).__name__
        raise SubtuneError(f"found scores of the type {kind}, expected numbers")
    return np.asarray(array, np.float64)


def try_rule(rule: Rule) -> None:
    """Call a rule with a random matrix; raise a `SubtuneError` if the result cannot be used.

    Rules that score all tensors at once are not called, because they may look up names. Built-in
    rules are not called, because planning does not need NumPy.
    """
    if rule.files and not rule.scores_all_at_once:
        with locate_errors(f"by: {rule.title}"):
            arrays = draw_arrays(rule, {"matrix": (256, 128)})
            score_entries(rule, arrays, np.random.default_rng(0))


def draw_arrays(rule: Rule, shapes: Mapping[str, Shape]) -> dict[str, dict[str, np.ndarray]]:
    """Draw random arrays of the tensors with the given shapes, as `score_entries` needs them."""
    rng = np.random.default_rng(0)

    def draw(need: str, shape: Shape) -> np.ndarray:
        array = rng.normal(size=shape).astype(np.float32)
        return array**2 if need == FISHER else array

    return {
        need: {name: draw(need, shape) for name, shape in shapes.items()}
        for need in OF_TENSOR
        if need in rule.needs
    }


def sum_scores(per_task: Iterable[Arrays]) -> dict[str, np.ndarray]:
    """Divide the scores of each task by the sum of their absolute values, and sum over tasks.

    For Fisher information, this is the global information of the LayerNorm paper, section 3.4. A
    `SubtuneError` is raised if all scores of a task are equal.
    """
    result: dict[str, np.ndarray] = {}
    for scores in per_task:
        if min(s.min() for s in scores.values()) == max(s.max() for s in scores.values()):
            raise SubtuneError("all entries have the same score")
        total = sum(float(np.abs(values).sum()) for values in scores.values())
        for name, values in scores.items():
            result[name] = result.get(name, 0.0) + values / total
    return result


def choose_entries(scores: Arrays, number: int) -> dict[str, np.ndarray]:
    """Return the ascending indices of the ``number`` highest scores, by tensor.

    Of equal scores, the first ones are chosen.
    """
    flat = np.concatenate([values.ravel() for values in scores.values()])
    lowest = np.partition(flat, len(flat) - number)[len(flat) - number]
    above = np.flatnonzero(flat > lowest)
    equal = np.flatnonzero(flat == lowest)[: number - len(above)]
    chosen = np.sort(np.concatenate([above, equal]))
    return split_by_tensor(chosen, {name: values.size for name, values in scores.items()})
