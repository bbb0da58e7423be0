"""List the settings of a configuration in Markdown tables, from the JSON schema."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).parents[2] / "config.schema.json"
WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "null": "nothing",
}
# Larger limits come from integer types in files, and mean nothing to a reader.
LARGEST = 2**53
LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
}

Schema = Mapping[str, Any]


def tables() -> str:
    """Format a table for the top level of a configuration, and one for each kind of section."""
    schema = json.loads(SCHEMA.read_text())
    definitions = schema["$defs"]
    sections = {"At the top": schema}
    sections |= {name: definitions[name] for name in names_in(schema["properties"], definitions)}
    return "\n".join(section(title, of) for title, of in sections.items())


def names_in(part: Any, definitions: Schema) -> list[str]:
    """List the definitions to which a part of the schema refers, directly or indirectly."""
    found: dict[str, None] = {}
    waiting = [part]
    while waiting:
        names = [name for name in references(waiting.pop(0)) if name not in found]
        found |= dict.fromkeys(names)
        waiting += [definitions[name].get("properties", {}) for name in dict.fromkeys(names)]
    return list(found)


def references(part: Any) -> Iterator[str]:
    """Yield the names of definitions to which a part of the schema refers directly."""
    if isinstance(part, Mapping):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def section(title: str, schema: Schema) -> str:
    """Format a heading, the description of the section, and a table with a row per setting."""
    lines = [f"## {title}", "", schema.get("description", ""), ""]
    lines += ["| setting | is | without it | means |", "|---|---|---|---|"]
    required = schema.get("required", [])
    for name, setting in schema["properties"].items():
        # The defaults of a subsection are in its own table.
        default = None if "$ref" in setting else setting.get("default")
        without = "an error" if name in required else as_written(default)
        cells = [f"`{name}`", words(setting), without, setting.get("description", "")]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


def as_written(value: Any) -> str:
    """Format a default value as in YAML; empty values give an empty text."""
    if value in (None, "", [], {}):
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}`"


def words(schema: Schema) -> str:
    """Describe the type and the limits of a setting as text."""
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
