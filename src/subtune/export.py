"""A recorded run as a model that transformers loads by itself, or as a PEFT adapter."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification, PretrainedConfig

from subtune.directories import new_directory
from subtune.errors import SubtuneError
from subtune.models import encoder
from subtune.models.files import OTHER_TOKENIZER_FILES, TOKENIZER
from subtune.runs import records
from subtune.selections.entries import CLASSIFIER
from subtune.specs import RunSpec
from subtune.tasks import Task
from subtune.training.delta import AddedUpdate, applied, from_stored

# RoBERTa's own classifier has what is the pooler here as its first layer.
ROBERTA_HEAD = {
    "pooler.dense.": "classifier.dense.",
    "classifier.": "classifier.out_proj.",
}


def export_model(results: Path, run: str, target: Path) -> None:
    """Write a run's model: configuration, all weights in safetensors, tokenizer.

    ``AutoModelForSequenceClassification.from_pretrained(target)`` predicts what the record says.

    Args:
        results: a configuration's results directory, with the run's record and its model.
        run: the run's id.
        target: a directory that is not there yet.

    Raises:
        SubtuneError: the record or the pretrained model is missing, or ``target`` cannot be made.
    """
    spec = records.read_spec(results / "runs", run)
    pretrained = _pretrained(results, spec)
    task = spec.tokens.data.task
    model = encoder.load(pretrained, task.num_labels)
    weights = applied(model.parameters, from_stored(records.read_delta(results / "runs", run)))
    config = _config(pretrained, task)
    whole = AutoModelForSequenceClassification.from_config(config)
    whole.load_state_dict(_their_names(weights, config.model_type))
    with new_directory(target) as draft:
        whole.save_pretrained(draft)
        for name in (TOKENIZER, *OTHER_TOKENIZER_FILES):
            if (pretrained / name).is_file():
                shutil.copyfile(pretrained / name, draft / name)


def export_adapter(results: Path, run: str, target: Path) -> None:
    """Write a LoRA run as an adapter: ``PeftModel.from_pretrained(base, target)`` loads it.

    The base is the pretrained model with a classifier of its own; the adapter brings the trained
    one. What trained whole beside LoRA is saved with the module that it belongs to.

    Raises:
        SubtuneError: the run trained without LoRA, or as for `export_model`.
    """
    spec = records.read_spec(results / "runs", run)
    if spec.selection.adapter is None:
        raise SubtuneError(f"run {run} trained without LoRA; export its model without --adapter")
    pretrained = _pretrained(results, spec)
    delta = from_stored(records.read_delta(results / "runs", run))
    model = encoder.load(pretrained, spec.tokens.data.task.num_labels)
    family = model.config.model_type
    updates = {name: c for name, c in delta.items() if isinstance(c, AddedUpdate)}
    others = {name: change for name, change in delta.items() if name not in updates}
    modules = {_their_name(name, family).rpartition(".")[0] for name in others}
    # RoBERTa's classifier is one module to PEFT, its first layer included.
    saved = sorted({"classifier" if m.startswith("classifier") else m for m in modules})
    theirs = _their_names(applied(model.parameters, others), family)
    weights = {
        f"base_model.model.{name}": value
        for name, value in theirs.items()
        if any(name.startswith(f"{module}.") for module in saved)
    }
    for name, update in updates.items():
        module = f"base_model.model.{_their_name(name, family).removesuffix('.weight')}"
        weights[f"{module}.lora_A.weight"] = update.lora_a
        weights[f"{module}.lora_B.weight"] = update.lora_b
    config = {
        "peft_type": "LORA",
        "task_type": "SEQ_CLS",
        "base_model_name_or_path": str(pretrained),
        "inference_mode": True,
        **spec.selection.adapter,
        "bias": "none",
        "target_modules": [_their_name(name, family).removesuffix(".weight") for name in updates],
        "modules_to_save": saved,
    }
    with new_directory(target) as draft:
        safetensors.torch.save_file(weights, draft / "adapter_model.safetensors")
        (draft / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def _pretrained(results: Path, spec: RunSpec) -> Path:
    directory = results / "models" / spec.model.id
    if not directory.is_dir():
        raise SubtuneError(f"found no pretrained model {directory}, which the run started from")
    return directory


def _config(pretrained: Path, task: Task) -> PretrainedConfig:
    config = AutoConfig.from_pretrained(pretrained, local_files_only=True)
    config.num_labels = task.num_labels
    if task.labels is None:
        config.problem_type = "regression"
    else:
        config.problem_type = "single_label_classification"
        config.id2label = dict(enumerate(task.labels))
        config.label2id = {label: number for number, label in enumerate(task.labels)}
    return config


def _their_names(parameters: Mapping[str, Tensor], family: str) -> dict[str, Tensor]:
    return {_their_name(name, family): value.contiguous() for name, value in parameters.items()}


def _their_name(name: str, family: str) -> str:
    """A parameter's name in transformers' classifier of its family."""
    if family == "roberta":
        for ours, theirs in ROBERTA_HEAD.items():
            if name.startswith(ours):
                return name.replace(ours, theirs, 1)
    return name if name in CLASSIFIER else f"{family}.{name}"
