"""The encoder and classifier of several runs, in one pass through the weights that they share.

A parameter is shared, in the model's own shape, or banked, with one value per run in front. Every
run reads the same batch under the same dropout masks, so that below the first banked parameter all
compute the same: there ``k`` is 1, and from there on the number of runs. What a run computes does
not depend on the others.

Shapes: ``k`` runs, ``n`` examples, ``t`` tokens of the batch, ``l`` tokens of its longest example,
``h`` hidden size, ``a`` heads, ``d`` numbers per head, ``i`` inputs, ``o`` outputs, ``r`` rank,
``e`` chosen entries.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PretrainedConfig
from transformers.activations import ACT2FN

from subtune.models.chosen import chosen_embedding, chosen_linear
from subtune.models.dropout import Masks
from subtune.models.encoder import Encoder
from subtune.models.families import family_of
from subtune.models.packed import Grid, Packed, from_grid, to_grid

# Beside a matrix may stand a low-rank update, DOWN [k, r, i] and UP [k, o, r] with the scale in it,
# or the VALUES [e] that alone train at ROWS and COLUMNS [e], which the matrix holds already.
DOWN, UP = ".lora_down", ".lora_up"
VALUES, ROWS, COLUMNS = ".values", ".rows", ".columns"

Watch = Callable[[str, Tensor, Tensor], None]


@dataclass(frozen=True)
class _Pass:
    """What every part of one forward pass reads."""

    config: PretrainedConfig
    parameters: Mapping[str, Tensor]
    batch: Packed
    masks: Masks | None
    watch: Watch | None

    def of(self, module: str) -> tuple[Tensor, Tensor]:
        return self.parameters[f"{module}.weight"], self.parameters[f"{module}.bias"]


def logits(
    model: Encoder,
    batch: Packed,
    masks: Masks | None = None,
    watch: Watch | None = None,
) -> Tensor:
    """Logits ``[k, n, num_labels]`` of every run.

    Args:
        model: its parameters are shared or banked.
        batch: what every run reads.
        masks: dropout masks; without them nothing is dropped.
        watch: is shown every module's name, input ``[k, t, i]`` (of embeddings: ids ``[t]``) and
            output ``[k, t, o]``, which it may ask for a gradient.
    """
    run = _Pass(model.config, model.parameters, batch, masks, watch)
    x = _dropped(run, _layer_norm(run, "embeddings.LayerNorm", _embedded(run)))
    for number in range(model.config.num_hidden_layers):
        # The pooler reads the first token alone, so the last layer computes nothing else.
        last = number == model.config.num_hidden_layers - 1
        x = _layer(run, f"encoder.layer.{number}", x, first_only=last)
    pooled = torch.tanh(_linear(run, "pooler.dense", x))
    return _linear(run, "classifier", _dropped(run, pooled))


def _embedded(run: _Pass) -> Tensor:
    """``[1, t, h]``."""
    batch = run.batch
    start = family_of(run.config.model_type).first_position(run.config)
    types = torch.zeros_like(batch.ids) if batch.token_type_ids is None else batch.token_type_ids
    ids = {"word": batch.ids, "position": batch.positions + start, "token_type": types}
    words, positions, types = (
        _embedding(run, f"embeddings.{name}_embeddings", ids[name]) for name in ids
    )
    x = (words + types + positions)[None]
    for name in ids:
        _show(run, f"embeddings.{name}_embeddings", ids[name], x)
    return x


def _embedding(run: _Pass, module: str, ids: Tensor) -> Tensor:
    name = f"{module}.weight"
    table = run.parameters[name]
    if name + VALUES not in run.parameters:
        return functional.embedding(ids, table)
    entries = (run.parameters[name + suffix] for suffix in (VALUES, ROWS, COLUMNS))
    return chosen_embedding(ids, table, *entries)


def _layer(run: _Pass, name: str, x: Tensor, first_only: bool) -> Tensor:
    """``[k, t, h]`` to the same, or to ``[k, n, h]`` of the first tokens."""
    inner = f"{name}.attention.self"
    asking = x.index_select(1, run.batch.first) if first_only else x
    query, key, value = _as_many_runs(
        _linear(run, f"{inner}.query", asking),
        _linear(run, f"{inner}.key", x),
        _linear(run, f"{inner}.value", x),
    )
    attended = _attention(run, query, key, value)
    attended = _add_and_norm(run, f"{name}.attention.output", attended, asking)
    activation = ACT2FN[run.config.hidden_act]
    between = activation(_linear(run, f"{name}.intermediate.dense", attended))
    return _add_and_norm(run, f"{name}.output", between, attended)


def _attention(run: _Pass, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """``[k, t, h]`` for queries of all tokens, ``[k, n, h]`` for queries of first tokens."""
    grids = run.batch.grids
    tokens = [grid.tokens for grid in grids]
    asking = tokens if query.shape[1] == key.shape[1] else [grid.size[0] for grid in grids]
    pieces = zip(
        grids, query.split(asking, 1), key.split(tokens, 1), value.split(tokens, 1), strict=True
    )
    return torch.cat([_attention_on_grid(run, *piece) for piece in pieces], 1)


def _attention_on_grid(run: _Pass, grid: Grid, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`_attention` of a grid's examples."""
    heads = run.config.num_attention_heads
    examples, longest = grid.size
    first_only = query.shape[1] == examples
    key, value = to_grid(key, grid, heads), to_grid(value, grid, heads)
    query = query.reshape(len(key), 1, -1) if first_only else to_grid(query, grid, heads)
    outside = grid.outside.to(key.dtype)[None, :, None]
    outside = outside.expand(len(key) // (examples * heads), -1, heads, -1)
    scores = torch.baddbmm(
        outside.reshape(len(key), 1, longest), query, key.mT, alpha=query.shape[-1] ** -0.5
    )
    weights = scores.softmax(-1)
    if run.masks is not None and run.config.attention_probs_dropout_prob:
        every = weights.view(-1, examples * heads, *weights.shape[1:])
        mask = run.masks.draw(every.shape[1:], run.config.attention_probs_dropout_prob)
        weights = (every * mask).view_as(weights)
    attended = weights @ value
    if first_only:
        return attended.view(-1, examples, heads * value.shape[2])
    return from_grid(attended, grid, heads)


def _add_and_norm(run: _Pass, name: str, x: Tensor, residual: Tensor) -> Tensor:
    x = _dropped(run, _linear(run, f"{name}.dense", x))
    return _layer_norm(run, f"{name}.LayerNorm", x + residual)


def _linear(run: _Pass, module: str, x: Tensor) -> Tensor:
    """``[k, t, i]`` to ``[k, t, o]``."""
    name = f"{module}.weight"
    weight, bias = run.of(module)
    down = run.parameters.get(name + DOWN)
    if name + VALUES in run.parameters:
        entries = (run.parameters[name + suffix] for suffix in (VALUES, ROWS, COLUMNS))
        y = chosen_linear(x, weight, *entries) + _per_run(bias)
    elif weight.ndim == 3:
        y = torch.baddbmm(_per_run(bias), x.expand(len(weight), -1, -1), weight.mT)
    elif bias.ndim == 2:
        y = functional.linear(x, weight) + _per_run(bias)
    else:
        y = functional.linear(x, weight, bias)
    if down is not None:
        y = y + x @ down.mT @ run.parameters[name + UP].mT
    _show(run, module, x, y)
    return y


def _layer_norm(run: _Pass, module: str, x: Tensor) -> Tensor:
    weight, bias = run.of(module)
    size, eps = x.shape[-1:], run.config.layer_norm_eps
    if weight.ndim == bias.ndim == 1:
        y = functional.layer_norm(x, size, weight, bias, eps)
    else:
        y = torch.addcmul(_per_run(bias), functional.layer_norm(x, size, eps=eps), _per_run(weight))
    _show(run, module, x, y)
    return y


def _as_many_runs(*tensors: Tensor) -> list[Tensor]:
    """Tensors ``[k, …]`` of which some may have a ``k`` of 1."""
    runs = max(map(len, tensors))
    return [x.expand(runs, -1, -1) for x in tensors]


def _per_run(vector: Tensor) -> Tensor:
    """``[h]`` as it is, ``[k, h]`` as ``[k, 1, h]``."""
    return vector if vector.ndim == 1 else vector[:, None]


def _dropped(run: _Pass, x: Tensor) -> Tensor:
    p = run.config.hidden_dropout_prob
    return x if run.masks is None or p == 0.0 else x * run.masks.draw(x.shape[1:], p)


def _show(run: _Pass, module: str, x: Tensor, y: Tensor) -> None:
    if run.watch is not None:
        run.watch(module, x, y)
