"""A plain implementation of diff pruning for models of transformers, as a reference for tests.

It imports no code of subtune. Sources: Guo, Rush and Kim (arXiv 2012.07463) and the files
run_glue_diffpruning.py, run_glue_mag.py and run_glue_fixmask_finetune.py of dguo98/DiffPruning.
"""

import math
from collections import namedtuple

import torch
from torch.func import functional_call

# Section 4.3: the ends l and r of the stretched distribution, λ, and the first α. All w start at 0.
LOWER, UPPER, PENALTY_WEIGHT, FIRST_GATE = -1.5, 1.5, 1.25e-7, 5.0
# Section 4.3: learning rates of all differences, and of masked ones. Both decay linearly to 0.
LEARNING_RATE, MASKED_LEARNING_RATE = 1e-5, 5e-5
# run_glue_diffpruning.py: the learning rate of α is constant, and uniform draws are clamped to
# [MARGIN, 1 - MARGIN].
GATE_LEARNING_RATE, MARGIN, MAXIMUM_NORM = 0.1, 1e-4, 1.0
# Parameters with this in their names have no gate. In RoBERTa, these are the whole head.
UNGATED = "classifier"
# The result of the first phase, by parameter name: w, α, the α of the whole tensor (only with
# structured gates), and δ.
State = namedtuple("State", "weights gates group_gates differences")


def gate(alpha, uniform):
    """Compute the gate z in [0, 1] from uniform draws (section 3.1)."""
    s = torch.sigmoid(torch.logit(uniform, eps=MARGIN) + alpha)
    return (s * (UPPER - LOWER) + LOWER).clamp(0, 1)


def probability_open(alpha):
    """Return the probability of z > 0 (section 3.1)."""
    return torch.sigmoid(alpha - math.log(-LOWER / UPPER))


def expected_size(gates, group_gates):
    """Return the expected number of differences (section 3.1 and, with groups, 3.3)."""
    group = {name: probability_open(alpha) for name, alpha in group_gates.items()}
    return sum((probability_open(a) * group.get(name, 1)).sum() for name, a in gates.items())


def train(
    model,
    batches,
    noise,
    structured=True,
    penalty=expected_size,
    penalty_weight=PENALTY_WEIGHT,
    learning_rate=LEARNING_RATE,
    gate_learning_rate=GATE_LEARNING_RATE,
):
    """Train differences and gates, one step per batch, and sample the final differences.

    ``noise(step, name, shape)`` returns uniform draws. The gate of a whole tensor has shape ``()``.
    """
    weights = {name: torch.zeros_like(p).requires_grad_() for name, p in model.named_parameters()}
    shapes = {name: w.shape for name, w in weights.items() if UNGATED not in name}
    gates = {n: torch.full(shape, FIRST_GATE, requires_grad=True) for n, shape in shapes.items()}
    group_gates = {n: torch.tensor(FIRST_GATE, requires_grad=True) for n in shapes if structured}

    def draw(step):
        z = {name: gate(a, noise(step, name, a.shape)) for name, a in gates.items()}
        own = {name: gate(a, noise(step, name, ())) for name, a in group_gates.items()}
        return {name: w * z.get(name, 1) * own.get(name, 1) for name, w in weights.items()}

    optimizer = torch.optim.AdamW(weights.values(), weight_decay=0)
    gate_optimizer = torch.optim.AdamW([*gates.values(), *group_gates.values()], weight_decay=0)
    for step, batch in enumerate(batches):
        loss = loss_with(model, draw(step), batch) + penalty_weight * penalty(gates, group_gates)
        loss.backward()
        update(optimizer, learning_rate * (1 - step / len(batches)))
        update(gate_optimizer, gate_learning_rate)
    found = weights, gates, group_gates, draw(len(batches))
    return State(*({name: value.detach() for name, value in one.items()} for one in found))


def project(state, share):
    """Mask the ``share`` of gated differences with the largest magnitudes (section 3.2)."""
    sizes = torch.cat([state.differences[name].abs().flatten() for name in state.gates])
    kept = sizes.argsort(descending=True, stable=True)[: int(share * len(sizes))]
    mask = torch.zeros(len(sizes), dtype=torch.bool).index_fill(0, kept, True) & (sizes > 0)
    parts = mask.split([alpha.numel() for alpha in state.gates.values()])
    return {n: part.view(a.shape) for (n, a), part in zip(state.gates.items(), parts, strict=True)}


def train_masked(model, batches, start, masks, learning_rate=MASKED_LEARNING_RATE):
    """Train the differences in ``masks`` and the classifier from ``start``; return differences.

    The published code starts from ``state.weights``, the paper's text from ``state.differences``.
    """
    weights = {name: value.clone().requires_grad_() for name, value in start.items()}
    optimizer = torch.optim.AdamW(weights.values(), weight_decay=0)
    for step, batch in enumerate(batches):
        differences = {name: w * masks.get(name, 1) for name, w in weights.items()}
        loss_with(model, differences, batch).backward()
        update(optimizer, learning_rate * (1 - step / len(batches)))
    return {name: w.detach() * masks.get(name, 1) for name, w in weights.items()}


def loss_with(model, differences, batch):
    """Compute the loss of a batch with ``differences`` added to the parameters.

    Dropout is active if the model is in training mode.
    """
    values = {name: p.detach() + differences[name] for name, p in model.named_parameters()}
    return functional_call(model, values, kwargs=dict(batch)).loss


def update(optimizer, learning_rate):
    """Clip the joint norm of an optimizer's gradients, step, and reset the gradients."""
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], MAXIMUM_NORM)
    optimizer.param_groups[0].update(lr=learning_rate)
    optimizer.step()
    optimizer.zero_grad()
