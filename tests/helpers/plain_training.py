"""A plain AdamW training loop for models of transformers or PEFT, as a reference for tests."""

import numpy as np
import torch


def outputs(model, split, number, **labels):
    """Return the model output for one example."""
    inputs = {name: torch.as_tensor(of[number])[None] for name, of in split.inputs.items()}
    attention_mask = torch.ones(1, split.lengths[number], dtype=torch.long)
    return model(**inputs, attention_mask=attention_mask, **labels)


def logits(model, split):
    """Return the logits of all examples, without dropout."""
    model.eval()
    with torch.no_grad():
        every = [outputs(model, split, number).logits for number in range(len(split))]
    return torch.cat(every).numpy()


def train(model, train, recipe, seed):
    """Train all parameters with ``requires_grad`` for one epoch, at a constant learning rate."""
    leaves = [value for value in model.train().parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(leaves, lr=recipe.learning_rate, weight_decay=0.0)
    order = np.random.default_rng(seed)
    chosen = order.permutation(len(train.row_indices))
    permutation = order.permutation(len(chosen))
    for first in range(0, len(chosen), recipe.batch_size):
        index = chosen[permutation[first : first + recipe.batch_size]]
        losses = [
            outputs(model, train, number, labels=torch.tensor([train.labels[number]])).loss
            for number in index
        ]
        torch.stack(losses).mean().backward()
        torch.nn.utils.clip_grad_norm_(leaves, recipe.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
