"""Export recorded runs as models of transformers or sentence-transformers, or PEFT adapters."""

import copy
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModel, PretrainedConfig

from subtune.core.errors import SubtuneError
from subtune.core.files import Layout, new_directory
from subtune.methods.added import Adapters, Lora, Peft, PeftSettings
from subtune.methods.baselines import Estimator
from subtune.methods.roles import is_added, is_classifier, is_norm
from subtune.models.encoder import Encoder, load_spec_encoder, make_transformers_model
from subtune.models.model_config import ADAPTER, SPEC, has_token_types, needs_single_eos_token
from subtune.models.model_files import (
    OTHER_TOKENIZER_FILES,
    README,
    TOKENIZER,
    TOKENIZER_CONFIG,
    silence_transformers,
)
from subtune.models.transformers_models import transposed_matrices
from subtune.runs import records
from subtune.runs.spec import RunSpec
from subtune.share.card import find_on_hub, model_card
from subtune.share.predict import DEFAULT_MINUTES, run_to_export
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Reads
from subtune.training.embeddings import pooled_tokens
from subtune.training.recorded_runs import pretrained_directory, with_delta
from subtune.training.values import LORA_A, LORA_B, Delta, changed_tensors

if TYPE_CHECKING:
    from peft import PeftModel

# The prefix that PEFT adds to transformers' parameter names.
PEFT_PREFIX = "base_model.model."
# The names of the modules in which PEFT stores trained copies of other modules.
COPY_LISTS = ("modules_to_save", "ln_tuning_layers")
# Maps the tokens that are pooled into an embedding to the option of sentence-transformers' module
# ``Pooling``.
POOLING_MODES: dict[Reads, str] = {
    "first": "pooling_mode_cls_token",
    "all": "pooling_mode_mean_tokens",
    "last": "pooling_mode_lasttoken",
}
# The folder of the linear layer that reads the features of a pair of texts. The code in the model
# card applies this layer, because no module of sentence-transformers combines two texts.
REGRESSION = "regression"


def export_model(
    layout: Layout,
    run: str,
    target: Path,
    minutes: float = DEFAULT_MINUTES,
    adapter: bool = False,
) -> str:
    """Export the model of a run: configuration, tokenizer, and float32 weights as safetensors.

    The export is loaded with ``from_pretrained(target)`` of the transformers class for the task,
    such as ``AutoModelForSequenceClassification``. The loaded model makes the same predictions as
    the run. Models with mean pooling, and regressions on embeddings, are exported in the format of
    sentence-transformers. The loaded model's ``encode`` method returns the logits or, for a
    regression on pairs, the embedding of each text.

    An adapter is loaded with ``PeftModel.from_pretrained(base, target)``, where ``base`` is the
    pretrained model with an untrained classifier. The adapter contains the trained classifier and,
    if a run trained whole tensors in addition to LoRA, the modules of these tensors. It refers to
    the base by name and commit on the hub or, if the base is not on the hub, by its path in the
    results. All values are float32, because a base in half precision would round them.

    Args:
        layout: the paths of the results that contain the run.
        run: the run's id. If it is a cross-validation run, its refit is trained and exported.
        target: the new folder.
        minutes: the time limit for a refit.
        adapter: whether to export a PEFT adapter instead of the whole model, for a run that trained
            LoRA, norms, or modules of the PEFT library. A run of a PEFT method is always exported
            as an adapter, because only PEFT implements the modules of these methods.

    Returns:
        The id of the exported run.

    Raises:
        SubtuneError: the run diverged, the record or the pretrained model is missing, ``target``
            cannot be written, or an adapter cannot store the parameters of the run.
    """
    given = records.read_spec(Path(layout.records()), run)
    adapter = adapter or isinstance(given.selection, Peft)
    _require_exportable(layout, given, adapter)
    spec, delta, model = _read_run(layout, run_to_export(layout, run, minutes))
    length, pretrained = spec.tokens.max_length, Path(layout.model(spec.model.id))
    with new_directory(target) as draft, silence_transformers():
        if adapter:
            _write_adapter(draft, layout, spec, delta, model)
        elif spec.is_baseline:
            _write_encoder(draft, pretrained, model.config, {})
            bias, weight = (value for _, value in sorted(delta.items()))
            read, texts = pooled_tokens(spec.model, model), len(spec.tokens.data.task.text)
            _write_sentence_transformer(draft, length, read, weight, bias, texts)
        else:
            config = _make_export_config(model, spec.tokens.data.task)
            trained = replace(with_delta(spec, model, delta), config=config)
            whole = make_transformers_model(trained)
            if trained.averages_logits:
                _write_encoder(draft, pretrained, config, whole.base_model.state_dict())
                *_, weight, bias = trained.parameters.values()
                _write_sentence_transformer(draft, length, model.tokens_read, weight, bias)
            else:
                whole.save_pretrained(draft)
        _write_other_files(draft, layout, spec, model, target.name, adapter)
    return spec.id


def _write_other_files(
    draft: Path, layout: Layout, spec: RunSpec, model: Encoder, place: str, adapter: bool
) -> None:
    """Write the run's spec, the tokenizer and the model card to the folder of an export."""
    text = json.dumps(spec.json_types, indent=2, ensure_ascii=False)
    (draft / SPEC).write_text(text + "\n", encoding="utf-8")
    for name in (TOKENIZER, *OTHER_TOKENIZER_FILES):
        path = Path(layout.model(spec.model.id)) / name
        if path.is_file():
            shutil.copyfile(path, draft / name)
    if model.transformers is not None or model.averages_logits:
        _complete_tokenizer(draft, model.config, spec.tokens.data.task.of_kind.head)
    (draft / README).write_text(model_card(layout, spec.id, place, adapter), encoding="utf-8")


def _complete_tokenizer(directory: Path, config: PretrainedConfig, head: str) -> None:
    """Complete a tokenizer's configuration, so that transformers tokenizes texts as in training.

    Padding is on the right, except in XLNet, whose classifier reads the last token of each row of a
    batch.
    """
    path = directory / TOKENIZER_CONFIG
    fields = json.loads(path.read_text()) if path.is_file() else {}
    if not fields.get("pad_token"):
        tokenizer = Tokenizer.from_file(str(directory / TOKENIZER))
        fields["pad_token"] = tokenizer.id_to_token(config.pad_token_id)
    # Without this field, transformers would use the tokenizer class of the model's family.
    fields.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
    if needs_single_eos_token(config.to_dict(), head):
        fields["split_special_tokens"] = True
    types = ["token_type_ids"] if has_token_types(config.to_dict()) else []
    fields["model_input_names"] = ["input_ids", *types, "attention_mask"]
    side = "left" if getattr(config, "summary_type", None) == "last" else "right"
    path.write_text(json.dumps(fields | {"padding_side": side}, indent=2) + "\n")


def _write_adapter(
    draft: Path, layout: Layout, spec: RunSpec, delta: Delta, model: Encoder
) -> None:
    from subtune.models.peft import make_peft_model

    settings = _choose_peft_settings(spec, delta, model)
    module, names = make_peft_model(model, settings, spec.seed)
    _fill_adapter(module, names, delta, model)
    module.peft_config["default"].base_model_name_or_path = layout.model(spec.model.id)
    module.save_pretrained(str(draft))
    name, revision = find_on_hub(spec.model)
    if name:  # The name is set after saving, because PEFT would access the hub otherwise.
        path = draft / ADAPTER
        fields = json.loads(path.read_text())
        fields |= {"base_model_name_or_path": name, "revision": revision}
        path.write_text(json.dumps(fields, indent=2) + "\n")


def _choose_peft_settings(spec: RunSpec, delta: Delta, model: Encoder) -> PeftSettings:
    """Choose the settings of a PEFT config that can store a run's trained values.

    If PEFT cannot store them, a `SubtuneError` is raised.
    """
    selection = spec.selection
    if isinstance(selection, Peft):
        return selection.peft
    changed = changed_tensors(model.parameters, delta)
    updates = [name for name in changed if name + LORA_A in delta]
    others = [name for name in changed if name not in updates and not is_classifier(name)]
    modules = sorted({_module_name(name, model) for name in others})
    if isinstance(selection, Lora):
        targets = [_module_name(name, model) for name in updates]
        fields = {"type": "LORA", "r": selection.lora.rank, "lora_alpha": selection.lora.alpha}
        fields |= {"target_modules": targets, "modules_to_save": modules}
    elif others and all(map(is_norm, others)):
        fields = {"type": "LN_TUNING", "target_modules": modules}
    else:
        raise SubtuneError(
            f"run {spec.id} trained parameters other than PEFT modules, LoRA or norms; export the "
            "whole model, without --adapter"
        )
    return PeftSettings.model_validate(fields)


def _fill_adapter(
    module: "PeftModel", names: Mapping[str, str], delta: Delta, model: Encoder
) -> None:
    """Copy a run's trained values into PEFT's model. ``names`` are from `make_peft_model`."""
    parameters, transposed = dict(module.named_parameters()), transposed_matrices(module)
    with torch.no_grad():
        for name, values in changed_tensors(model.parameters, delta).items():
            if name + LORA_A in delta:
                matrix = f"{PEFT_PREFIX}{_module_name(name, model)}"
                parameters[f"{matrix}.lora_A.default.weight"].copy_(delta[name + LORA_A])
                parameters[f"{matrix}.lora_B.default.weight"].copy_(delta[name + LORA_B])
                continue
            if is_added(name) or is_classifier(name):
                own = names[name]
            else:
                # PEFT trains a copy of a module if all of its parameters are trained.
                module_name, _, last = model.exported_name(name).rpartition(".")
                copies = (
                    f"{PEFT_PREFIX}{module_name}.{inside}.default.{last}" for inside in COPY_LISTS
                )
                own = next(copy for copy in copies if copy in parameters)
            parameter = parameters[own].mT if own in transposed else parameters[own]
            parameter.copy_(values)


def _module_name(name: str, model: Encoder) -> str:
    return model.exported_name(name).rpartition(".")[0]


def _require_exportable(layout: Layout, spec: RunSpec, adapter: bool) -> None:
    """Raise a `SubtuneError` for a run that cannot be exported, before its refit is trained."""
    if isinstance(spec.selection, Estimator):
        raise SubtuneError(
            f"run {spec.id} fitted an estimator, which cannot be stored without pickle; "
            "`subtune predict` fits it again"
        )
    if spec.reads_texts:
        raise SubtuneError(
            f"run {spec.id} has no pretrained model to export; to fit its regression, use the code "
            "in docs/methods.md, section TF-IDF (unless the log says that texts were truncated or "
            "mentions stochastic gradient descent)"
        )
    if isinstance(spec.selection, Adapters):
        raise SubtuneError(
            f"run {spec.id} trained Houlsby or Pfeiffer adapters, which neither transformers nor "
            "PEFT supports; choose a run of another method"
        )
    if adapter and not records.read_outcome(Path(layout.records()), spec.id)["diverged"]:
        _choose_peft_settings(*_read_run(layout, spec.id))


def _read_run(layout: Layout, run: str) -> tuple[RunSpec, Delta, Encoder]:
    store = Path(layout.records())
    spec = records.read_spec(store, run)
    delta = {key: torch.from_numpy(v) for key, v in records.read_delta(store, run).items()}
    return spec, delta, load_spec_encoder(spec, pretrained_directory(layout, spec))


def _make_export_config(model: Encoder, task: TaskSpec) -> PretrainedConfig:
    config = copy.deepcopy(model.config)
    config.num_labels = task.outputs
    config.problem_type = task.of_kind.problem_type
    # Training used float32, even if the model was stored in half precision. Rounding to half
    # precision would remove small changes.
    config.dtype = torch.float32
    if task.labels is not None:
        config.id2label = dict(enumerate(task.labels))
        config.label2id = {label: number for number, label in enumerate(task.labels)}
    return config


def _write_encoder(
    draft: Path, pretrained: Path, config: PretrainedConfig, values: Mapping[str, Tensor]
) -> None:
    """Save a pretrained encoder without a head. ``values`` are its changed tensors."""
    encoder = AutoModel.from_pretrained(pretrained, config=config, local_files_only=True).float()
    encoder.load_state_dict(values, strict=False)
    encoder.save_pretrained(draft)


def _write_sentence_transformer(
    draft: Path, max_length: int, read: Reads, weight: Tensor, bias: Tensor, embeddings: int = 0
) -> None:
    """Write the files that make an encoder a model of sentence-transformers.

    ``read`` names the tokens that are pooled into an embedding; ``weight`` ``[o, f]`` and ``bias``
    ``[o]`` belong to the linear layer, which has ``f`` input features. ``embeddings`` is the number
    of texts per example, whose embeddings are normalised; 0 means one text without normalisation.
    """
    outputs, features = weight.shape
    width = features // 4 if embeddings > 1 else features
    modes = {field: tokens == read for tokens, field in POOLING_MODES.items()}
    # Maps the folder of each module after the encoder to the module's configuration.
    folders: dict[str, dict[str, Any]] = {"1_Pooling": {"word_embedding_dimension": width, **modes}}
    if embeddings:
        folders["2_Normalize"] = {}
    dense = REGRESSION if embeddings > 1 else f"{len(folders) + 1}_Dense"
    folders[dense] = {"in_features": features, "out_features": outputs, "bias": True}
    folders[dense] |= {"activation_function": "torch.nn.modules.linear.Identity"}
    modules = [
        {"idx": number, "name": str(number), "path": path}
        | {"type": f"sentence_transformers.models.{path.partition('_')[2] or 'Transformer'}"}
        for number, path in enumerate(["", *folders])
        if path != REGRESSION
    ]
    length = {"max_seq_length": max_length, "do_lower_case": False}
    written: dict[str, Any] = {"modules.json": modules, "sentence_bert_config.json": length}
    written |= {f"{folder}/config.json": fields for folder, fields in folders.items()}
    for name, content in written.items():
        (draft / name).parent.mkdir(exist_ok=True)
        (draft / name).write_text(json.dumps(content, indent=2) + "\n")
    tensors = {"linear.weight": weight.contiguous(), "linear.bias": bias.contiguous()}
    save_file(tensors, draft / dense / "model.safetensors")
