"""A recorded run as a model that transformers loads by itself, or as a PEFT adapter."""

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path

import safetensors.torch
import torch
from tokenizers import Tokenizer
from transformers import PretrainedConfig

from subtune.core.directories import new_directory
from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.families.base import is_classifier
from subtune.models.encoder import Encoder
from subtune.models.files import OTHER_TOKENIZER_FILES, TOKENIZER, TOKENIZER_CONFIG
from subtune.models.load import load_model
from subtune.models.transformers_models import quiet, with_values
from subtune.runs import records
from subtune.runs.job import model_of
from subtune.selections.lora import Lora
from subtune.selections.peft import Peft
from subtune.selections.specs import RunSpec
from subtune.tasks import TaskSpec
from subtune.training.delta import AddedUpdate, ChangedTensor, Delta, applied, from_stored


def export_model(layout: Layout, run: str, target: Path) -> None:
    """Write a run's model: configuration, all weights in float32 as safetensors, tokenizer.

    ``from_pretrained(target)`` of transformers' class for the task, such as
    ``AutoModelForSequenceClassification``, predicts what the record says. A run with modules of
    PEFT is written as `export_adapter` does, since only PEFT has their code.

    Raises:
        SubtuneError: the run diverged, the record or the pretrained model is missing, or ``target``
            cannot be made.
    """
    spec, delta, pretrained, model = _trained(layout, run)
    if isinstance(spec.selection, Peft):
        return _export_peft(spec, delta, pretrained, target)
    task = spec.tokens.data.task
    weights = applied(model.parameters, delta)
    config = _config(model, task)
    whole = with_values(replace(model, config=config, parameters=weights))
    with new_directory(target) as draft, quiet():
        whole.save_pretrained(draft)
        for name in (TOKENIZER, *OTHER_TOKENIZER_FILES):
            if (pretrained / name).is_file():
                shutil.copyfile(pretrained / name, draft / name)
        if model.transformers is not None:
            _name_padding(draft, model.config.pad_token_id)


def _name_padding(directory: Path, padding: int) -> None:
    """Have a tokenizer that has no token of padding take the model's, behind the text."""
    path = directory / TOKENIZER_CONFIG
    fields = json.loads(path.read_text()) if path.is_file() else {}
    if not fields.get("pad_token"):
        fields["pad_token"] = Tokenizer.from_file(str(directory / TOKENIZER)).id_to_token(padding)
    path.write_text(json.dumps(fields | {"padding_side": "right"}, indent=2) + "\n")


def export_adapter(layout: Layout, run: str, target: Path) -> None:
    """Write a run of LoRA or PEFT as an adapter: ``PeftModel.from_pretrained(base, target)``.

    The base is the pretrained model with a classifier of its own; the adapter brings the trained
    one. What trained whole beside LoRA is saved with the module that it belongs to. All is float32,
    which a base that is loaded in half precision would round.

    Raises:
        SubtuneError: the run trained neither, or as for `export_model`.
    """
    spec, delta, pretrained, model = _trained(layout, run)
    if isinstance(spec.selection, Peft):
        return _export_peft(spec, delta, pretrained, target)
    if not isinstance(spec.selection, Lora):
        raise SubtuneError(f"run {run} trained without LoRA; export its model without --adapter")
    updates = {name: c for name, c in delta.items() if isinstance(c, AddedUpdate)}
    others = {name: change for name, change in delta.items() if name not in updates}
    saved = sorted({_saved_module(name, model) for name in others})
    applied_whole = applied(model.parameters, others)
    weights = {
        f"base_model.model.{name}": value
        for name, value in replace(model, parameters=applied_whole).exported().items()
        if any(name.startswith(f"{module}.") for module in saved)
    }
    for name, update in updates.items():
        module = f"base_model.model.{model.exported_name(name).removesuffix('.weight')}"
        weights[f"{module}.lora_A.weight"] = update.lora_a
        weights[f"{module}.lora_B.weight"] = update.lora_b
    config = {
        "peft_type": "LORA",
        "task_type": spec.tokens.data.task.of_kind.peft_type,
        "base_model_name_or_path": str(pretrained),
        "inference_mode": True,
        "r": spec.selection.lora.rank,
        "lora_alpha": spec.selection.lora.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": any(model.is_transposed(name) for name in updates),
        "target_modules": [model.exported_name(name).removesuffix(".weight") for name in updates],
        "modules_to_save": saved,
    }
    with new_directory(target) as draft:
        safetensors.torch.save_file(weights, draft / "adapter_model.safetensors")
        (draft / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def _export_peft(spec: RunSpec, delta: Delta, pretrained: Path, target: Path) -> None:
    """Write the folder that PEFT itself writes for a run with its modules."""
    from subtune.models.injected import with_modules

    assert isinstance(spec.selection, Peft)
    task = spec.tokens.data.task
    base = load_model(pretrained, task.of_kind.head, task.outputs)
    module, names = with_modules(base, spec.selection.peft, spec.seed)
    values = dict(module.named_parameters())
    with torch.no_grad():
        for name, change in delta.items():
            assert isinstance(change, ChangedTensor)
            values[names[name]].copy_(change.values)
    module.peft_config["default"].base_model_name_or_path = str(pretrained)
    with new_directory(target) as draft, quiet():
        module.save_pretrained(str(draft))


def _trained(layout: Layout, run: str) -> tuple[RunSpec, Delta, Path, Encoder]:
    """Return a run, its changes, and the directory and the model that it started from."""
    store = Path(layout.records())
    spec = records.read_spec(store, run)
    delta = from_stored(records.read_delta(store, run))
    pretrained = Path(layout.model(spec.model.id))
    if not pretrained.is_dir():
        raise SubtuneError(f"found no pretrained model {pretrained}, which the run started from")
    task = spec.tokens.data.task
    model = model_of(spec, load_model(pretrained, task.of_kind.head, task.outputs))
    for name in delta:
        if name not in model.parameters:
            raise SubtuneError(
                f"run {run} has trained {name}, which its model has not: an earlier version had "
                "another classifier; train it again"
            )
    return spec, delta, pretrained, model


def _config(model: Encoder, task: TaskSpec) -> PretrainedConfig:
    config = copy.deepcopy(model.config)
    kind = task.of_kind
    config.num_labels = task.outputs
    config.problem_type = kind.problem_type
    # A stored model in half precision is trained in float32; half would round away what was learnt.
    config.dtype = torch.float32
    if task.labels is not None:
        config.id2label = dict(enumerate(task.labels))
        config.label2id = {label: number for number, label in enumerate(task.labels)}
    return config


def _saved_module(name: str, model: Encoder) -> str:
    """The module that PEFT saves whole where a parameter of it trains whole."""
    exported = model.exported_name(name)
    # For PEFT, transformers' head is one module, however many layers it has.
    return exported.partition(".")[0] if is_classifier(name) else exported.rpartition(".")[0]
