"""How much memory a training step of runs side by side takes.

Shapes: ``t`` tokens of a batch, ``m`` examples of a grid, ``l`` tokens of its longest.
"""

from collections.abc import Sequence

from subtune.families.base import Family, reads_first_only
from subtune.models.encoder import Encoder
from subtune.selections.entries import Entries, Indices, LowRank, count

FLOAT_BYTES = 4
# Of each trained value: itself, the optimiser's two averages, and what the pass reads; of a matrix,
# which it reads as it is, the gradient. Other gradients come as activations go.
COPIES = 4
# Of a low-rank update half is held once more, with its scale.
COPIES_OF_UPDATES = 4.5
# Of each entry of a tensor that trains in part: value, gradient, averages, and where it stands.
COPIES_OF_ENTRIES = 8


def step_bytes(
    model: Encoder, entries: Entries, tokens: int, grids: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """The most that a step holds beside the model: for every run, and once for all runs.

    Runs keep for the way back what lies above the first value that they train. A layer's attention
    keeps queries, keys, values and the weights before and after dropout; what follows it keeps the
    inputs of two LayerNorms and of the activation. Dropout masks are kept once. Where the head
    reads first tokens alone the last layer computes those only, but all keys and values; where it
    reads others its input is kept. On the way back one layer's gradients are held beside that, and
    of matrices that train in part one product at a time.

    Args:
        model: its shapes count.
        entries: what a run trains.
        tokens: ``t``.
        grids: of attention, each ``m`` and ``l``.
    """
    if model.skeleton is not None:
        return _step_bytes_of_transformers(model, entries, grids)
    config, family = model.config, model.family
    hidden, between = config.hidden_size, config.intermediate_size
    layers, first_only = config.num_hidden_layers, reads_first_only(model.head)
    # Those that compute all tokens.
    whole = layers - 1 if first_only else layers
    padded_tokens = sum(m * longest for m, longest in grids)
    pairs = config.num_attention_heads * sum(m * longest**2 for m, longest in grids)
    first = min(_stage(name, family, layers) for name in entries)
    run = once = 0
    for layer in range(whole):
        if 2 * layer >= first:
            run += 3 * padded_tokens * hidden + 2 * pairs
            once += pairs
        if 2 * layer + 1 >= first:
            run += tokens * (2 * hidden + between)
            once += 2 * tokens * hidden
    if 2 * (layers - 1) >= first:
        run += tokens * 2 * (between + hidden)
        run += 2 * padded_tokens * hidden if first_only else 0
    if not first_only:
        run += tokens * hidden
    kept = {_kept_for(name, family) for name in entries}
    sizes = {"hidden": hidden, "between": between, "nothing": 0}
    run += tokens * sum(sizes[size] for layer, _, size in kept if layer < whole)
    product = 0
    for name, entry in entries.items():
        shape = model.parameters[name].shape
        match entry:
            case LowRank(rank):
                run += rank * (tokens + int(COPIES_OF_UPDATES * sum(shape)))
            case Indices(flat):
                run += shape.numel() + COPIES_OF_ENTRIES * len(flat)
                product = max(product, _held_on_the_way_back(tokens * len(flat), shape.numel()))
            case _:
                run += COPIES * shape.numel()
    run += product
    return FLOAT_BYTES * run, FLOAT_BYTES * once


def _step_bytes_of_transformers(
    model: Encoder, entries: Entries, grids: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """As `step_bytes`, of transformers' own code: what all layers keep, whatever trains.

    A layer keeps about sixteen inputs as wide as the model, four as wide as its feed-forward part,
    and four times the weights of attention.
    """
    config = model.config
    between = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    tokens = sum(m * longest for m, longest in grids)
    pairs = config.num_attention_heads * sum(m * longest**2 for m, longest in grids)
    layer = tokens * (16 * config.hidden_size + 4 * between) + 4 * pairs
    trained = count(entries, {name: value.shape for name, value in model.parameters.items()})
    return FLOAT_BYTES * (config.num_hidden_layers * layer + COPIES * trained), 0


def _held_on_the_way_back(pairs: int, size: int) -> int:
    """Numbers beside a matrix of which some entries train, as `subtune.models.sparse_grad` chooses.

    Two factors and their product for every pair of token and entry, or one product of everything.
    """
    return 3 * pairs if pairs <= size else size


def _stage(name: str, family: Family, layers: int) -> int:
    """From which half of which layer on runs differ: 0 for layer 0's attention, 1 for the rest."""
    component, layer, _ = family.component_of(name)
    inside = family.components
    if layer is None:
        return 0 if component in family.embeddings else 2 * layers
    if component in (inside.query, inside.key, inside.value):
        return 2 * layer
    return 2 * layer + (2 if component in (inside.output, inside.output_norm) else 1)


def _kept_for(name: str, family: Family) -> tuple[int, str, str]:
    """The layer, module and size of the input that a tensor's own gradient needs."""
    component, layer, part = family.component_of(name)
    inside = family.components
    if layer is None:
        return 0, component, "nothing"
    if family.is_norm(name) and part == "weight":
        return layer, component, "hidden"
    if part == "bias":
        return layer, component, "nothing"
    # Queries, keys and values read the same.
    reads = inside.query if component in (inside.key, inside.value) else component
    return layer, reads, "between" if component == inside.output else "hidden"
