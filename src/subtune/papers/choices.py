"""Read and tabulate what a paper left open, and what differs in subtune (``choices.yaml``)."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, field_validator

from subtune.config import parse_config_file
from subtune.config.fields import Name, Section
from subtune.config.schema import Experiment
from subtune.core.errors import explain_pydantic_errors, format_allowed
from subtune.exhibits.output import EMPTY, Needs, StyledTable, Table
from subtune.methods import NamedSelection

NonEmptyText = Annotated[str, Field(min_length=1)]
# The widths of wrapped columns in the LaTeX table, as fractions of the text width. LaTeX scales the
# table down, so wider columns give a lower table with smaller letters.
CHOICE_WIDTHS = {"paper": 0.6, "subtune": 0.6, "in this experiment": 0.3, "why": 0.5}
CHOICE_WIDTHS |= {"printed in": 0.2}


class Choice(Section):
    """A point that a paper left open, or in which subtune differs from the paper or its code.

    Attributes:
        paper: what the paper says or leaves open, and what its published code does.
        why: the reason, or the consequence.
        settings: settings of an experiment, with the values that they have in ``config.yaml``.
        tasks: the tasks to which the settings apply; empty for all.
        selections: selections that follow the published code instead.
    """

    printed_in: NonEmptyText
    paper: NonEmptyText
    subtune: NonEmptyText
    why: NonEmptyText
    settings: Mapping[str, Any] = {}
    tasks: tuple[str, ...] = ()
    selections: Mapping[str, NamedSelection] = {}

    @field_validator("settings")
    @classmethod
    def _require_known_settings(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in settings.keys() - Experiment.model_fields:
            raise ValueError(format_allowed(name, Experiment.model_fields))
        return settings

    def as_yaml(self) -> list[str]:
        """Return the settings and the selections, if any, as one line of YAML each."""
        selections = {name: of.json_types for name, of in self.selections.items()}
        parts = self.settings, {"selections": selections} if selections else {}
        return [_format_yaml(part) for part in parts if part]

    def list_differences(self, experiment: Experiment) -> list[str]:
        """List the settings whose values in an experiment differ from ``config.yaml``."""
        tasks = [task for task in experiment.tasks if not self.tasks or task in self.tasks]
        of_tasks = [experiment.with_overrides(task).model_dump(mode="json") for task in tasks]
        different = []
        for name, value in self.settings.items():
            found = [*dict.fromkeys(_format_yaml({name: of_task[name]}) for of_task in of_tasks)]
            if tasks and found != [_format_yaml({name: value})]:
                different.append(" or ".join(found))
        return different


def read_choices(path: Path) -> dict[str, Choice]:
    """Read a paper's choices from a file, by name. A mistake raises a `SubtuneError`."""
    with explain_pydantic_errors(path):
        return TypeAdapter(dict[Name, Choice]).validate_python(parse_config_file(path))


def tabulate_choices(choices: Mapping[str, Choice], experiment: Experiment) -> list[dict[str, str]]:
    """Tabulate the choices, one per row, and how an experiment differs from each of them."""
    return [
        {
            "about": name,
            "printed in": choice.printed_in,
            "paper": choice.paper,
            "subtune": " ".join([choice.subtune, *choice.as_yaml()]),
            "in this experiment": ", ".join(choice.list_differences(experiment)) or EMPTY,
            "why": choice.why,
        }
        for name, choice in choices.items()
    ]


LEFT_OPEN = Table(
    "left_open",
    "What the paper left open, and what differs here",
    "The table lists what the paper does not state, and where subtune differs from the paper or "
    "from its published code, if there is any. The settings are those that follow the paper; the "
    "column 'in this experiment' lists settings that have other values. The selections define "
    "methods that train what the published code trains.",
    make=lambda results: StyledTable(results["left_open"], wide=CHOICE_WIDTHS),
    needs=Needs(tables=("left_open",)),
)


def _format_yaml(mapping: Mapping[str, Any]) -> str:
    text = yaml.safe_dump({**mapping}, default_flow_style=True, width=math.inf, sort_keys=False)
    return text.strip()[1:-1]
