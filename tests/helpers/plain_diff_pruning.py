"""Diff pruning of transformers' own models, written out plainly; a reference for tests.

It imports nothing of the project's. Sources: Guo, Rush and Kim (arXiv 2012.07463) and the files
run_glue_diffpruning.py, run_glue_mag.py and run_glue_fixmask_finetune.py of dguo98/DiffPruning.
"""

import math
from collections import namedtuple

import torch
from torch.func import functional_call

# Section 4.3: the ends l and r of the stretched distribution, λ, and the first α. All w start at 0.
LOWER, UPPER, PENALTY_WEIGHT, FIRST_GATE = -1.5, 1.5, 1.25e-7, 5.0
# Section 4.3: rates of all differences, and of those in the mask. Both decay linearly to 0.
LEARNING_RATE, MASKED_LEARNING_RATE = 1e-5, 5e-5
# run_glue_diffpruning.py: the rate of α is constant; draws stay MARGIN away from 0 and 1.
GATE_LEARNING_RATE, MARGIN, MAXIMUM_NORM = 0.1, 1e-4, 1.0
UNGATED = "classifier"  # Names that hold this have no gate; in RoBERTa it is the whole head.
# What the first phase returns: w, α, each tensor's own α (or nothing), and δ, all by name.
State = namedtuple("State", "weights gates group_gates differences")


def gate(alpha, uniform):
    """Return z in [0, 1] for uniform draws (section 3.1)."""
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
    """Train differences and gates, one step per batch; draw once more for the last differences.

    ``noise(step, name, shape)`` returns uniform draws; a tensor's own gate asks with shape ``()``.
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
    """Return masks of the largest differences: ``share`` of all that have a gate (section 3.2)."""
    sizes = torch.cat([state.differences[name].abs().flatten() for name in state.gates])
    kept = sizes.argsort(descending=True, stable=True)[: int(share * len(sizes))]
    mask = torch.zeros(len(sizes), dtype=torch.bool).index_fill(0, kept, True) & (sizes > 0)
    parts = mask.split([alpha.numel() for alpha in state.gates.values()])
    return {n: part.view(a.shape) for (n, a), part in zip(state.gates.items(), parts, strict=True)}


def train_masked(model, batches, start, masks, learning_rate=MASKED_LEARNING_RATE):
    """Train the differences in ``masks`` and the classifier from ``start``; return differences.

    The published code starts at ``state.weights``, the paper's words at ``state.differences``.
    """
    weights = {name: value.clone().requires_grad_() for name, value in start.items()}
    optimizer = torch.optim.AdamW(weights.values(), weight_decay=0)
    for step, batch in enumerate(batches):
        differences = {name: w * masks.get(name, 1) for name, w in weights.items()}
        loss_with(model, differences, batch).backward()
        update(optimizer, learning_rate * (1 - step / len(batches)))
    return {name: w.detach() * masks.get(name, 1) for name, w in weights.items()}


def loss_with(model, differences, batch):
    """Return a batch's loss with differences added; in training mode the model drops out."""
    values = {name: p.detach() + differences[name] for name, p in model.named_parameters()}
    return functional_call(model, values, kwargs=dict(batch)).loss


def update(optimizer, learning_rate):
    """Clip the gradients of an optimizer's tensors together, step, and clear them."""
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], MAXIMUM_NORM)
    optimizer.param_groups[0].update(lr=learning_rate)
    optimizer.step()
    optimizer.zero_grad()
