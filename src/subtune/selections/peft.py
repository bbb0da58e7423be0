"""Any configuration of PEFT: its code adds modules to a model, and these train."""

import json
from typing import Any

from pydantic import GetJsonSchemaHandler, model_validator

from subtune.core.content_ids import Value, canonical
from subtune.core.errors import SubtuneError
from subtune.families.base import is_added
from subtune.selections.kind import AbstractSelection, Entries, Ranks, Shapes, Whole, Work


class PeftSettings(Value):
    """A PEFT type, such as ``IA3``, and the fields of its configuration, each as JSON.

    `subtune.models.injected` checks both, because importing PEFT takes seconds.
    """

    type: str
    fields_as_json: tuple[tuple[str, str], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_mapping(cls, given: Any) -> Any:
        if not isinstance(given, dict) or isinstance(given.get("fields_as_json"), tuple):
            return given
        if not all(isinstance(name, str) for name in given):
            raise ValueError("expected names of fields")
        try:
            fields = [(name, canonical(given[name])) for name in sorted(given)]
        except (TypeError, ValueError):
            raise ValueError("expected text, finite numbers, true, false, null and lists") from None
        own = {"type": given["type"]} if "type" in given else {}
        return own | {"fields_as_json": tuple(pair for pair in fields if pair[0] != "type")}

    @classmethod
    def __get_pydantic_json_schema__(cls, _: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of PEFT's configuration."""
        return {name: json.loads(value) for name, value in self.fields_as_json}

    @property
    def virtual_tokens(self) -> int:
        """How many tokens of its own the type puts before a text."""
        number = self.fields.get("num_virtual_tokens")
        return number if isinstance(number, int) else 0

    def written(self) -> dict[str, Any]:
        return {"type": self.type} | self.fields


class Peft(AbstractSelection):
    """The parameters that a configuration of PEFT adds to a model, and those that it unfreezes."""

    usual_work = Work.LOW_RANK
    peft: PeftSettings

    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        entries: Entries = dict.fromkeys(filter(is_added, shapes), Whole())
        if not entries:
            raise SubtuneError(f"selection: PEFT's {self.peft.type} trains nothing in this model")
        return entries

    def in_words(self) -> str:
        fields = ", ".join(f"{name} {value}" for name, value in self.peft.fields_as_json)
        return f"PEFT {self.peft.type}" + (f" ({fields})" if fields else "")
