"""Selections of every PEFT type, for tiny models of three families."""

from pathlib import Path

from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

from subtune.methods import SELECTION
from subtune.models.peft import UNSUPPORTED_TYPES

# Required fields, or fields that fit models of width 32. Other types use the defaults of PEFT.
FIELDS = {
    "BOFT": {"boft_block_size": 4},
    "C3A": {"block_size": 8},
    "CARTRIDGE": {"num_virtual_tokens": 3},
    "FOURIERFT": {"n_frequency": 10},
    "MISS": {"r": 4},
    "OFT": {"oft_block_size": 4},
    "PREFIX_TUNING": {"num_virtual_tokens": 3},
    "PROMPT_TUNING": {"num_virtual_tokens": 3},
    "PSOFT": {"r": 4},
    "PVERA": {"r": 4},
    "P_TUNING": {"num_virtual_tokens": 3, "encoder_hidden_size": 8},
    "RANDLORA": {"r": 4},
    "ROAD": {"group_size": 8},
    "SHIRA": {"r": 2},
    "VBLORA": {"vector_length": 4, "num_vectors": 8},
    "VERA": {"r": 4},
    "WAVEFT": {"n_frequency": 10},
}
TARGETS = {
    "bert": ["query", "value", "output.dense"],
    "modernbert": ["Wqkv", "Wo"],
    "qwen2": ["q_proj", "v_proj", "down_proj"],
}
NORMS = {"bert": ["LayerNorm"], "modernbert": ["mlp_norm"], "qwen2": ["input_layernorm"]}
WITHOUT_TARGETS = ("PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CARTRIDGE")
# One PEFT type for each kind of added parameters: matrices, vectors, circulant matrices, a prompt
# encoder, keys and values, norms, single entries, and a vector bank.
SORTS = ("LORA", "IA3", "C3A", "P_TUNING", "PREFIX_TUNING", "LN_TUNING", "SHIRA", "VBLORA")
# A tuner that PEFT does not know.
OWN = "my_tuner"
OWN_FILE = Path(__file__).parents[2] / "examples" / "my_tuner.py"
TYPES = sorted({of.value for of in PEFT_TYPE_TO_CONFIG_MAPPING} - set(UNSUPPORTED_TYPES))


def selection_of(of_type, family):
    fields = {"type": of_type} | FIELDS.get(of_type, {})
    if of_type == OWN:
        fields = {"config": f"{OWN_FILE}:ScaleConfig", "model": f"{OWN_FILE}:ScaleModel"}
    if of_type == "LN_TUNING":
        fields["target_modules"] = NORMS[family]
    elif of_type == "IA3":
        fields |= {"target_modules": TARGETS[family], "feedforward_modules": TARGETS[family][-1:]}
    elif of_type not in WITHOUT_TARGETS:
        fields["target_modules"] = TARGETS[family]
    return SELECTION.validate_python({"peft": fields})
