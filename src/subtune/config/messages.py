"""What pydantic finds wrong, as lines for people."""

from typing import Any

from pydantic import BaseModel, ValidationError

from subtune.config import schema
from subtune.core.errors import cut, key_path, one_of
from subtune.selections import UNION_MEMBERS, allowed_keys
from subtune.tasks.formats.text import NO_CHARACTER

# What a value should have been, in the words of YAML.
IN_YAML = {
    "tuple_type": "a list",
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "string_type": "text",
}


def lines_of(error: ValidationError) -> list[str]:
    """One line per mistake: the key's path, what was found, what was expected."""
    problems = error.errors()
    paths = [tuple(problem["loc"]) for problem in problems]
    return [
        _line(problem)
        for problem, path in zip(problems, paths, strict=True)
        # A list that a wrong item left too short only follows from that item.
        if not any(other[: len(path)] == path and other != path for other in paths)
    ]


def _line(problem: Any) -> str:
    # pydantic names the members of a union in the path, and marks keys; the user wrote neither.
    not_written = {*UNION_MEMBERS, "[key]", schema.LIST, schema.WORD}
    steps = [step for step in problem["loc"] if step not in not_written]
    if problem["type"] == "extra_forbidden":
        *above, unknown = problem["loc"]
        steps = [*(step for step in above if step not in not_written), unknown]
        return f"{key_path(steps)}: unknown key, {one_of(str(unknown), _keys_at(tuple(above)))}"
    return ": ".join([*([key_path(steps)] if steps else []), text_of(problem)])


def text_of(problem: Any) -> str:
    """What was found and what was expected, without the path."""
    value = problem["input"]
    kind = problem["type"]
    if isinstance(value, bool):
        return text_of_boolean(value)
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
        return (
            f"found {value!r}, expected a letter or digit, then letters, digits, '_', '.', '+', '-'"
        )
    if kind == "string_unicode":
        return text_of_no_character(NO_CHARACTER.findall(value)[0])
    if kind in IN_YAML:
        return f"found {cut(repr(value))}, expected {IN_YAML[kind]}"
    shortened = repr(value) if len(repr(value)) < 60 else type(value).__name__
    if isinstance(value, str):
        shortened = repr(cut(value))
    message = problem["msg"].removeprefix("Input should be ").removeprefix("String should have ")
    return f"found {shortened}, expected {message[0].lower()}{message[1:]}"


def text_of_boolean(value: bool) -> str:
    """Nothing in a configuration is true or false; and 1 is neither."""
    return (
        f"found {value}, expected a number or text; in YAML text such as yes, no or on has quotes"
    )


def text_of_no_character(letter: str) -> str:
    """Half a letter, or a zero, which no file of text has."""
    return f"found {letter!r}, expected text"


def _keys_at(steps: tuple) -> list[str]:
    """The keys allowed at a path of the configuration."""
    if not steps:
        return list(schema.Config.model_fields)
    if steps[0] == "selections":
        return allowed_keys(steps[2:])
    sections: dict[str, type[BaseModel]] = {
        "models": schema.ModelSource,
        "tasks": schema.OwnTask,
        "experiments": schema.Experiment,
        "figures": schema.Style,
        "assumptions": schema.Assumptions,
    }
    # Below an experiment's own name.
    parts: dict[str, type[BaseModel]] = {
        "by_model": schema.ModelSettings,
        "by_task": schema.TaskSettings,
        "fractions": schema.Fractions,
        "fisher": schema.FisherSettings,
    }
    section = parts.get(steps[2]) if len(steps) > 2 else None
    return list((section or sections[steps[0]]).model_fields)
