"""Mistakes that pydantic finds, as lines for people."""

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from subtune.config.schema import PATTERNS_IN_WORDS, Config
from subtune.core.errors import cut, key_path, one_of

# Types in the words of YAML.
IN_YAML = {
    "tuple_type": "a list",
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "string_type": "text",
}


def lines_of(error: ValidationError) -> list[str]:
    """Return one line per mistake: the key's path, what was found, what was expected."""
    problems = error.errors()
    paths = [tuple(problem["loc"]) for problem in problems]
    return [
        _line(problem)
        for problem, path in zip(problems, paths, strict=True)
        # A wrong item also leaves its list too short: only the item is named.
        if not any(other[: len(path)] == path and other != path for other in paths)
    ]


def _line(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        # The user's own key, which may look like a mark.
        *path, unknown = problem["loc"]
        above = _without_marks(path)
        return (
            f"{key_path([*above, unknown])}: unknown key, {one_of(str(unknown), _keys_at(above))}"
        )
    steps = _without_marks(problem["loc"])
    return ": ".join([*([key_path(steps)] if steps else []), text_of(problem)])


def _without_marks(path: Sequence[Any]) -> list[Any]:
    """Return a path without pydantic's marks: "[key]", and the tags of a union's members."""
    return [step for step in path if not str(step).startswith("[")]


def text_of(problem: Any) -> str:
    """Return what was found and what was expected, without the path."""
    value = problem["input"]
    kind = problem["type"]
    if isinstance(value, bool):
        return f"found {value}, expected a number or text; in YAML yes, no and on need quotes"
    if kind == "too_short":
        return f"found {value!r}, expected at least {problem['ctx']['min_length']}"
    if kind == "missing":
        return "missing, and needed"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == "literal_error":
        allowed = problem["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return one_of(value, allowed)
    if kind == "string_pattern_mismatch":
        return f"found {cut(value)!r}, expected {PATTERNS_IN_WORDS[problem['ctx']['pattern']]}"
    if kind in IN_YAML:
        return f"found {cut(repr(value))}, expected {IN_YAML[kind]}"
    message = problem["msg"].removeprefix("Input should be ").removeprefix("String should have ")
    return f"found {cut(repr(value))}, expected {message[0].lower()}{message[1:]}"


def _keys_at(path: list) -> list[str]:
    """Return the keys allowed at a path of the configuration."""
    sections: list[type[BaseModel]] = [Config]
    for step in path:
        fields = [section.model_fields.get(step) for section in sections]
        inner = [model for field in fields if field for model in _models_in(field.annotation)]
        # A step that is a name or a number leads to no other section.
        sections = inner or sections
    return list(dict.fromkeys(key for section in sections for key in section.model_fields))


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
