"""Predict with exported models in plain transformers and PEFT.

This module imports no code of subtune, so that it also runs as a script:

    python plain_transformers.py CALLS

``CALLS`` is a JSON list, with one list of arguments of `predict` per call.
"""

import json
import sys

import torch
import transformers


def predict(path, base, rows, outputs, auto_class):
    """Return the logits of each example: ``[outputs]``, or ``[tokens, outputs]`` for token heads.

    Args:
        path: the exported model or PEFT adapter.
        base: the base model of the adapter, or None if ``path`` is a whole model.
        auto_class: the name of a transformers class, such as ``AutoModelForTokenClassification``.
    """
    kind = getattr(transformers, auto_class)
    if base:
        from peft import PeftModel

        model = kind.from_pretrained(base, num_labels=outputs, dtype=torch.float32)
        model = PeftModel.from_pretrained(model, path)
    else:
        model = kind.from_pretrained(path)
    return [logits(model.eval(), row) for row in rows]


def logits(model, row):
    """Return the logits of one example."""
    with torch.inference_mode():
        found = model(**{name: torch.tensor([values]) for name, values in row.items()})
    if "logits" in found:
        return found.logits[0].tolist()
    return torch.stack([found.start_logits[0], found.end_logits[0]], -1).tolist()


if __name__ == "__main__":
    print(json.dumps([predict(*call) for call in json.loads(sys.argv[1])]))
