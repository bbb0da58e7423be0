"""Last hidden states, which are those of transformers' model without a head."""

import numpy as np
import pytest
import torch
from transformers import AutoModel

from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.models.forward import hidden_states
from subtune.models.load import load_model
from subtune.models.packed import pack
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples
from tests.helpers import examples

ROWS = np.array([3, 0, 5])
# The states that are read of a text.
READ = {"first": slice(1), "last": slice(-1, None), "all": slice(None)}


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "gpt2", "qwen2"])
@pytest.mark.parametrize("reads", READ)
def test_states_are_those_of_transformers_model_without_a_head(family, reads, tiny):
    directory = tiny(family)
    split = Examples(examples.tokens(TASKS["mrpc"], directory)["train"], reads)
    model = load_model(directory, SEQUENCE_CLASSIFICATION, 2)
    plain = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    expected = []
    for number in ROWS:
        inputs = {name: torch.tensor(split.inputs[name][number])[None] for name in split.inputs}
        with torch.inference_mode():
            expected.append(plain(**inputs).last_hidden_state[0, READ[reads]])
    with torch.inference_mode():
        states = hidden_states(model, pack(split, ROWS, model))
    torch.testing.assert_close(states, torch.cat(expected), atol=1e-5, rtol=1e-5)
