"""The settings of a configuration, from its JSON schema to tables in Markdown."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

SCHEMA = Path(__file__).parents[2] / "config.schema.json"
# The page that ends with them.
PAGE = "configuration"

WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "null": "nothing",
}
# Larger limits are those of the files that hold the numbers, and say nothing to a reader.
LARGEST = 2**53
LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
}

Schema = Mapping[str, Any]


def tables(schema: Schema) -> str:
    """A section for the top of a configuration, and one for each kind of section in it."""
    definitions = schema["$defs"]
    sections = {"At the top": schema}
    sections |= {name: definitions[name] for name in names_in(schema["properties"], definitions)}
    return "\n".join(section(title, of) for title, of in sections.items())


def names_in(part: Any, definitions: Schema) -> list[str]:
    """The definitions that a part refers to, itself or by others, in order, each once."""
    found: dict[str, None] = {}
    waiting = [part]
    while waiting:
        names = [name for name in references(waiting.pop(0)) if name not in found]
        found |= dict.fromkeys(names)
        waiting += [definitions[name].get("properties", {}) for name in dict.fromkeys(names)]
    return list(found)


def references(part: Any) -> Iterator[str]:
    """The names that a part of a schema refers to."""
    if isinstance(part, Mapping):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def section(title: str, schema: Schema) -> str:
    """A heading, what the section is, and a row for each setting."""
    lines = [f"## {title}", "", schema.get("description", ""), ""]
    lines += ["| setting | is | without it | means |", "|---|---|---|---|"]
    required = schema.get("required", [])
    for name, setting in schema["properties"].items():
        # What a section has without a word of it stands in its own table.
        default = None if "$ref" in setting else setting.get("default")
        without = "an error" if name in required else as_written(default)
        cells = [f"`{name}`", words(setting), without, setting.get("description", "")]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


def as_written(value: Any) -> str:
    """A value as one would write it; one that says nothing is left out."""
    if value in (None, "", [], {}):
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}`"


def words(schema: Schema) -> str:
    """What a value may be."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return as_written(schema["const"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            some = [words(option) for option in schema[choice] if option.get("type") != "null"]
            return " or ".join(dict.fromkeys(some))
    kind = schema.get("type", "")
    if kind == "array":
        return f"list of: {words(schema.get('items', {}))}"
    if kind == "object":
        named = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
        values = [words(value) for value in named if isinstance(value, Mapping)]
        return f"by name: {' or '.join(values)}" if values else "names and values"
    given = {key: schema[key] for key in LIMITS if abs(schema.get(key, LARGEST)) < LARGEST}
    limits = [LIMITS[key].format(limit) for key, limit in given.items()]
    return f"{WORDS.get(kind, 'anything')} {' and '.join(limits)}".strip()


def append(app: Sphinx, page: str, source: list[str]) -> None:
    """Give the page its tables."""
    if page == PAGE:
        app.env.note_dependency(str(SCHEMA))
        source[0] += "\n" + tables(json.loads(SCHEMA.read_text()))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", append)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
