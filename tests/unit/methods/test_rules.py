"""Rules that score single entries: built-in ones, and those of a user."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from subtune.core import errors
from subtune.core.errors import SubtuneError
from subtune.methods.rules import (
    BUILT_IN,
    choose_entries,
    find_rule,
    score_entries,
    sum_scores,
    try_rule,
)

WEIGHT, GRADIENT = np.array([[2.0, -1], [0.5, 4]]), np.array([[1.0, 3], [-2, 0.1]])
EXPECTED = {
    "fisher": [[7, 7], [7, 8]],
    "magnitude": [[2, 1], [0.5, 4]],
    "smallest_magnitude": [[-2, -1], [-0.5, -4]],
    "gradient": [[1, 3], [2, 0.1]],
    "snip": [[2, 3], [1, 0.4]],
    "force": [[-2, 3], [1, -0.4]],
    "taylor": [[4, 9], [1, 0.16]],
    "grasp": [[2, 6], [-0.5, 0]],
    "synflow": [[2, 3], [2, 1]],
    "gem": [[0.5, 3], [4, 0.025]],
}


def score(by, seed=0):
    every = {"weight": WEIGHT, "gradient": GRADIENT, "fisher": np.array([[7.0, 7], [7, 8]])}
    every["hessian_gradient"] = np.array([[1.0, -6], [-1, 0]])
    every["synflow_gradient"] = np.array([[1.0, 3], [4, 0.25]])
    rule = find_rule(by)
    given = {name: {"a": every[name]} for name in every if name in rule.needs}
    return score_entries(rule, given, np.random.default_rng(seed))["a"]


@pytest.mark.parametrize("by", EXPECTED)
def test_a_built_in_rule_has_its_formula(by):
    np.testing.assert_allclose(score(by), EXPECTED[by], rtol=1e-6)
    try_rule(find_rule(by))


def test_every_built_in_rule_is_tested():
    assert BUILT_IN.keys() - EXPECTED.keys() == {"random"}
    assert not np.array_equal(score("random", 0), score("random", 1))
    np.testing.assert_array_equal(score("random", 1), score("random", 1))


@pytest.fixture
def write_rule(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(code):
        encoding = "latin-1" if "latin-1" in code else "utf-8"
        (tmp_path / "my_rules.py").write_text(code, encoding)
        return "my_rules.py:mine"

    return write


def test_a_users_function_gets_what_its_arguments_name(write_rule):
    by = write_rule("def mine(gradient, weight):\n    return gradient - weight\n")
    np.testing.assert_array_equal(score(by), GRADIENT - WEIGHT)
    assert find_rule(by).needs == {"gradient", "weight"}


def test_a_function_may_score_all_tensors_at_once(write_rule):
    code = "def mine(weights):\n    return {n: w - w.mean() for n, w in weights.items()}\n"
    np.testing.assert_array_equal(score(write_rule(code)), WEIGHT - WEIGHT.mean())


def test_a_function_may_be_in_an_installed_module_whose_package_counts():
    rule = find_rule("subtune.methods.rules:snip")
    assert rule.needs == {"weight", "gradient"}
    assert Path(errors.__file__) in rule.files and rule.files[0].name == "rules.py"


@pytest.mark.parametrize(
    "code",
    [
        "from functools import partial\n"
        "def scale(weight, by): return by * weight\nmine = partial(scale, by=2)",
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Scale:\n    by: int\n    def __call__(self, weight):\n"
        "        return self.by * weight\nmine = Scale(2)",
        "import numpy as np\ndef mine(weight):\n"
        "    return 2 * weight * np.linalg.norm(weight, axis=1, keepdims=True) ** 0",
        "def mine(weight):\n    blocks = 2 * weight.reshape(2, -1)\n"
        "    return blocks.reshape(weight.shape)",
    ],
    ids=["partial", "dataclass", "matrices only", "blocks"],
)
def test_a_rule_is_anything_that_can_be_called(write_rule, code):
    by = write_rule(code)
    try_rule(find_rule(by))
    np.testing.assert_array_equal(score(by), 2 * WEIGHT)


def test_the_code_of_a_file_in_any_encoding_is_read_as_it_is(write_rule):
    code = "# coding: latin-1\n# ä\ndef mine(weight): return weight"
    rule = find_rule(write_rule(code))
    assert rule.read_code() == code.encode("latin-1")
    assert find_rule("snip").read_code().startswith(b"def snip(weight")


def test_the_hash_depends_on_the_whole_file_and_nothing_is_written_beside_it(write_rule):
    first = find_rule(write_rule("A = 1\ndef mine(weight):\n    return A * weight\n"))
    other = find_rule(write_rule("A = 2\ndef mine(weight):\n    return A * weight\n"))
    assert first.code_hash != other.code_hash
    assert find_rule("snip").code_hash is None
    assert [path.name for path in Path().iterdir()] == ["my_rules.py"]


MISTAKES = {
    "def mine(weigth): return 1": r"argument found 'weigth', expected one of .*mean 'weight'",
    "def mine(): return 1": "found arguments none, expected weight, gradient, fisher",
    "def mine(rng): return 1": "found arguments rng, expected",
    "def mine(weight, gradients): return 1": "found arguments weight, gradients, expected",
    "def other(weight): return 1": "found 'mine', expected one of other",
    "mine = 3": "found 'mine', expected one of",
    "import nothing_of_this_name": "cannot import my_rules.py: line 1: ModuleNotFoundError: No mod",
    "def mine(weight) return 1": "cannot import my_rules.py: SyntaxError: ",
    "def mine(weight):\n    return wieght": "my_rules.py:mine: line 2: NameError: name 'wieght'",
    "import sys\nsys.exit('no')": "cannot import my_rules.py: line 2: SystemExit: no",
    "def mine(weight):\n    raise SystemExit": "by: .*my_rules.py:mine: line 2: SystemExit",
    "def mine(weight):\n    return weight / 0": "that is not a finite number",
    "def mine(weight):\n    return weight.sum()": r"found shape \(\) for matrix, expected \(256",
    "def mine(weight):\n    weight *= 2\n    return weight": "line 2: ValueError: output array",
    "def mine(weight):\n    return 'high'": "found scores of the type str, expected numbers",
    "def mine(weight):\n    return weight + 0j": "found scores of the type complex64, expected",
    "def mine(weight):\n    2 * weight": "found scores of the type NoneType, expected",
    "def mine(weight):\n    raise KeyError('own')": "mine: line 2: KeyError: 'own'",
    "from .other import f": "; a file cannot import the files next to it",
    "import my_rules": "No module named 'my_rules'; a file cannot import the files next to it",
}


@pytest.mark.parametrize(("code", "said"), MISTAKES.items(), ids=range(len(MISTAKES)))
def test_a_mistake_gets_one_line_with_the_file_and_the_function(write_rule, code, said):
    with pytest.raises(SubtuneError, match=said) as refused:
        try_rule(find_rule(write_rule(code)))
    assert "\n" not in str(refused.value) and "my_rules.py" in str(refused.value)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("return [*weights.values()]", "found a result of the type list, expected a dictionary"),
        ("return {'b': weights['a']}", "the result lacks the tensor a"),
        ("return {'a': weights['b']}", "line 2: KeyError: 'b'"),
    ],
)
def test_a_wrong_result_for_all_tensors_gets_one_line(write_rule, code, said):
    with pytest.raises(SubtuneError, match=said):
        score(write_rule(f"def mine(weights):\n    {code}\n"))


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("magnitud", "found 'magnitud', expected one of .*mean 'magnitude'.*my_rules.py:gem"),
        ("absent.py:mine", "cannot import absent.py: no such file"),
        ("absent_package.rules:mine", "cannot import absent_package.rules: ModuleNotFoundError"),
        ("my_rules.py:", "found 'my_rules.py:', expected one of"),
    ],
)
def test_a_rule_that_does_not_exist_gets_one_line(by, said):
    with pytest.raises(SubtuneError, match=said):
        find_rule(by)


@given(
    arrays(np.int8, 24, elements=st.integers(-3, 3)),
    st.integers(1, 24),
)
def test_the_highest_scores_are_chosen_and_of_equal_ones_the_first(values, number):
    scores = {"a": values[:6].reshape(2, 3).astype(float), "b": values[6:].astype(float)}
    chosen = choose_entries(scores, number)
    expected = np.sort(np.argsort(-values.astype(float), kind="stable")[:number])
    found = [chosen.get("a", np.empty(0)), 6 + chosen.get("b", np.empty(0))]
    np.testing.assert_array_equal(np.concatenate(found), expected)


def test_equal_scores_choose_nothing():
    with pytest.raises(SubtuneError, match="all entries have the same score"):
        sum_scores([{"a": np.zeros(3), "b": np.zeros(2)}])


def test_every_task_counts_the_same_however_large_its_scores_and_signs_are_kept():
    small, large = {"a": np.array([1.0, 3.0])}, {"a": np.array([3e6, 1e6])}
    np.testing.assert_allclose(sum_scores([small, large])["a"], [1, 1])
    np.testing.assert_allclose(sum_scores([{"a": np.array([-1.0, 3])}])["a"], [-0.25, 0.75])


@given(st.permutations(range(4)))
def test_the_order_of_tasks_does_not_matter(order):
    rng = np.random.default_rng(0)
    tasks = [{"a": rng.random(50), "b": rng.random(7)} for _ in range(4)]
    one, other = (choose_entries(sum_scores(t), 9) for t in (tasks, [tasks[i] for i in order]))
    assert one.keys() == other.keys()
    assert all((one[name] == other[name]).all() for name in one)
