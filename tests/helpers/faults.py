"""List the faults that tests cause, from their markers.

    python -m tests.helpers.faults

prints the tables that the built site appends to docs/reliability.md.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
TITLES = {
    "data": "Data",
    "models": "Models and configurations",
    "files": "Files, network and security",
    "interruptions": "Interruptions",
    "numbers": "Numbers and memory",
}


class Fault(NamedTuple):
    """What goes wrong, what happens then, and the test that causes it.

    ``section`` is a key of `TITLES`.
    """

    section: str
    cause: str
    effect: str
    test: str


def list_faults() -> Iterator[Fault]:
    """Yield the arguments of all markers ``@pytest.mark.fault(section, cause, effect)``."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            for decorator in node.decorator_list:
                match decorator:
                    case ast.Call(func=ast.Attribute(attr="fault"), args=arguments):
                        section, cause, effect = map(ast.literal_eval, arguments)
                        test = f"{path.relative_to(TESTS).as_posix()}::{node.name}"
                        yield Fault(section, cause, effect, test)


def fault_tables() -> str:
    """Format a heading and a table for each section."""
    faults, lines = [*list_faults()], []
    for section, title in TITLES.items():
        lines += [f"### {title}", "", "| what goes wrong | what happens | test |", "|---|---|---|"]
        lines += [
            f"| {fault.cause} | {fault.effect} | `{fault.test}` |"
            for fault in faults
            if fault.section == section
        ]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(fault_tables())
