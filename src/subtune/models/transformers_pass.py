"""The forward pass of models that run transformers' code.

`torch.func.functional_call` replaces the pretrained parameter values with those of a run.
`torch.func.vmap` computes several runs side by side, with an additional dimension for the runs.

Shapes: ``k`` runs, ``n`` examples, ``l`` tokens of the longest example, ``q`` tokens that the head
reads, ``i`` inputs, ``o`` outputs, ``r`` rank.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from subtune.core.errors import SubtuneError, error_reason
from subtune.core.process import is_out_of_memory
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.families import QUESTION_ANSWERING
from subtune.models.operations import DropoutMasks, LowRankUpdate, PerRun, Weight
from subtune.models.packing import PackedBatch
from subtune.models.transformers_models import TransformersModule
from subtune.tasks.examples import Reads

# Maps the name of a module to the two matrices of its low-rank update, ``[r, i]`` and ``[o, r]``.
Updates = Mapping[str, tuple[Tensor, Tensor]]


def transformers_logits(
    encoder: Encoder, batch: PackedBatch, trained: Mapping[str, Weight], masks: DropoutMasks | None
) -> Tensor:
    """Compute logits ``[k, q, o]``, as `subtune.models.forward.compute_logits` does."""
    theirs = _require_transformers(encoder)
    shared = {theirs.transformers_names[name]: value for name, value in encoder.parameters.items()}
    own: dict[str, Tensor] = {}
    updates: dict[str, tuple[Tensor, Tensor]] = {}
    for name, weight in trained.items():
        own_name = theirs.transformers_names[name]
        match weight:
            case _ if name in theirs.without_effect:
                pass
            case PerRun(values):
                own[own_name] = values
            case LowRankUpdate(lora_a, lora_b):
                updates[own_name.rpartition(".")[0]] = lora_a, lora_b
            case Tensor():
                shared[own_name] = weight
    theirs.module.train(masks is not None)
    compute = partial(_compute_run_logits, encoder, batch, shared)
    with _ReplacedFunctions(masks), _seed_generator(theirs, masks), convert_model_errors(encoder):
        runs = [len(values) for values in (*own.values(), *(a for a, _ in updates.values()))]
        if max(runs, default=1) > 1:
            # ``same`` means that all runs share the dropout masks.
            return vmap(compute, randomness="same")(own, updates)
        first = {name: values[0] for name, values in own.items()}
        return compute(first, {name: (a[0], b[0]) for name, (a, b) in updates.items()})[None]


def _require_transformers(encoder: Encoder) -> TransformersModule:
    assert encoder.transformers is not None, "this model has subtune's own forward pass"
    return encoder.transformers


def transformers_hidden_states(encoder: Encoder, batch: PackedBatch) -> Tensor:
    """Compute hidden states, as `subtune.models.forward.compute_hidden_states` does."""
    _, states = _run_head(encoder, _pad_inputs(encoder, batch))
    reads = batch.first_tokens if batch.reads is None else batch.reads
    return _pick_tokens(states, batch, reads)


def find_token_read(encoder: Encoder) -> Reads:
    """Find which tokens' last hidden states transformers' sequence classifier reads.

    The logits of a short text are differentiated with respect to the hidden states. If they do not
    depend on the hidden states, a pooler in the encoder has read the first token.
    """
    config = encoder.config
    ends = getattr(config, "eos_token_id", None)
    ends = ends if isinstance(ends, list) else [ends]
    # The first ids are often special tokens.
    words = [id for id in range(4, 12) if id not in (config.pad_token_id, *ends)]
    # Some encoder-decoder models read the token that ends a text.
    last = ends[0] if config.is_encoder_decoder else words[3]
    ids = torch.tensor([[*words[:3], last]], device=encoder.device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.enable_grad():
        logits, states = _run_head(with_new_classifier(encoder, seed=0), inputs, True)
        if not logits.requires_grad:
            return "first"
        [gradient] = torch.autograd.grad(logits.square().sum(), states)
    [read] = gradient[0].any(-1).nonzero(as_tuple=True)
    return "all" if len(read) > 1 else "first" if read.tolist() == [0] else "last"


def _run_head(
    encoder: Encoder, inputs: Mapping[str, Tensor], needs_gradient: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute logits, and the last hidden states ``[n, l, h]`` that the head receives."""
    theirs = _require_transformers(encoder)
    states = []

    def keep_states(module: nn.Module, arguments: Any, outputs: Any) -> Any:
        states.append(outputs[0].detach().requires_grad_() if needs_gradient else outputs[0])
        if isinstance(outputs, tuple):
            return states[-1], *outputs[1:]
        outputs[next(iter(outputs))] = states[-1]
        return outputs

    tensors = encoder.export_parameters() | dict(theirs.buffers)
    base = theirs.module.eval().get_submodule(f"{theirs.module.base_model_prefix}")
    hook = base.register_forward_hook(keep_states)
    try:
        with convert_model_errors(encoder):
            outputs = functional_call(theirs.module, tensors, (), dict(inputs))
    finally:
        hook.remove()
    return outputs[0], states[-1]


def _compute_run_logits(
    encoder: Encoder,
    batch: PackedBatch,
    shared: Mapping[str, Tensor],
    own: Mapping[str, Tensor],
    updates: Updates,
) -> Tensor:
    """Compute the logits ``[q, o]`` of one run.

    ``shared`` and ``own`` map transformers' parameter names to values; ``own`` takes precedence.
    ``updates`` maps transformers' module names to the run's low-rank updates.
    """
    theirs, tensors = _require_transformers(encoder), {**shared, **own}
    # GPT-2's linear layers store their matrices as [i, o].
    tensors |= {name: tensors[name].mT for name in theirs.transposed}
    inputs = _pad_inputs(encoder, batch)
    with _add_updates(theirs.module, updates):
        outputs = functional_call(theirs.module, tensors | dict(theirs.buffers), (), inputs)
    if encoder.head == QUESTION_ANSWERING:
        logits = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
    else:
        logits = outputs.logits
    # Losses and means are computed in float32, even if matrix products are not.
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if batch.reads is None:
        return logits
    # The logits of PEFT's virtual tokens come first, and are removed.
    logits = logits[:, logits.shape[1] - batch.longest :]
    if encoder.averages_logits:
        is_token = inputs["attention_mask"][:, :, None]
        return (logits * is_token).sum(1) / is_token.sum(1)
    return _pick_tokens(logits, batch, batch.reads)


def _pick_tokens(padded: Tensor, batch: PackedBatch, reads: Tensor) -> Tensor:
    """Select the values ``[q, …]`` of the tokens in ``reads`` from a padded batch ``[n, l, …]``."""
    return padded[batch.example[reads], batch.positions[reads]]


def _pad_inputs(encoder: Encoder, batch: PackedBatch) -> dict[str, Tensor]:
    """Return the named inputs of the transformers model, padded on the right to ``[n, l]``."""
    # An additional row receives the tokens of the tail, which belong to no example. ``[:-1]``
    # removes the row.
    size = len(batch.first_tokens) + 1, batch.longest
    indices = batch.example, batch.positions
    columns = {
        "input_ids": (batch.ids.new_full(size, encoder.config.pad_token_id), batch.ids),
        "attention_mask": (batch.ids.new_zeros(size), torch.ones_like(batch.ids)),
    }
    if batch.token_type_ids is not None:
        columns["token_type_ids"] = (batch.ids.new_zeros(size), batch.token_type_ids)
    return {
        name: padding.index_put(indices, values)[:-1] for name, (padding, values) in columns.items()
    }


@contextmanager
def _add_updates(module: nn.Module, updates: Updates) -> Iterator[None]:
    """Add low-rank updates to the outputs of linear layers, by forward hooks."""
    with ExitStack() as hooks:
        for name, (lora_a, lora_b) in updates.items():
            hook = module.get_submodule(name).register_forward_hook(
                lambda _, inputs, y, a=lora_a, b=lora_b: y + inputs[0] @ a.mT @ b.mT
            )
            hooks.enter_context(hook)
        yield


@contextmanager
def convert_model_errors(encoder: Encoder) -> Iterator[None]:
    """Convert an error in transformers' code to a `SubtuneError`, unless memory is used up."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        is_cast = any(map(torch.is_autocast_enabled, ("cpu", "cuda")))
        raise SubtuneError(
            f"transformers' {encoder.config.model_type!r} model fails: "
            f"{error_reason(error)}{'; try `precision: fp32`' if is_cast else ''}"
        ) from error


@contextmanager
def _seed_generator(theirs: TransformersModule, masks: DropoutMasks | None) -> Iterator[None]:
    """Seed torch's default generator, from which some modules of PEFT draw random numbers.

    On a GPU, `DropoutMasks` has seeded it, and each replay of a CUDA graph draws new numbers.
    """
    if masks is None or not theirs.injected or masks.device.type == "cuda":
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(masks.draw_seed())
        yield


class _ReplacedFunctions(TorchFunctionMode):
    """Replacements of torch functions that are active during a forward pass.

    Dropout uses the masks of `DropoutMasks`, which all runs share. If ``type_as`` converts a number
    in CPU memory to a tensor on the GPU, a kernel writes the number, because a CUDA graph cannot
    contain a copy from the CPU.
    """

    def __init__(self, masks: DropoutMasks | None):
        super().__init__()
        self._masks = masks

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is functional.dropout:
            func = self._apply_dropout
        if func is Tensor.type_as and not args[0].ndim and args[0].device != args[1].device:
            return args[1].new_full((), args[0].item())
        return func(*args, **(kwargs or {}))

    def _apply_dropout(
        self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or not p or self._masks is None:
            return input
        return input * self._masks.draw_mask(input.shape, p)
