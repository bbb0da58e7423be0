"""Write tiny random models of all families that run through the forward pass of transformers.

A model has two layers of width 32 and no dropout. It has the vocabulary and the tokenizer of the
tiny BERT.
"""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForSequenceClassification

VOCABULARY = """
the a an is was not very film story good bad great dull warm cold happy sad people dog cat
runs sleeps sings he she it they who what where when this that and or but of in on to .
"""
WORDS = VOCABULARY.split()
SHAPE: dict[str, Any] = {
    "vocab_size": len(WORDS) + 4,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
# Fields for padding, dropout and token types. Some families ignore them.
USUAL = {
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "classifier_dropout": 0.0,
    "type_vocab_size": 2,
}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "pooler_hidden_size": 32}
DECODER: dict[str, Any] = {"num_key_value_heads": 1, "type_vocab_size": 0}
MODERNBERT: dict[str, Any] = {
    "global_attn_every_n_layers": 2,
    "local_attention": 128,
    "cls_token_id": 2,
    "sep_token_id": 3,
    "type_vocab_size": 0,
}
# Further config fields of each family, by its model type in transformers.
FIELDS: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 16, "classifier_dropout_prob": 0.0},
    "deberta": RELATIVE,
    "deberta-v2": RELATIVE
    | {
        "position_buckets": 8,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
    },
    "distilbert": {
        "hidden_dim": 64,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "seq_classif_dropout": 0.0,
        "qa_dropout": 0.0,
        "type_vocab_size": 0,
    },
    "electra": {"embedding_size": 16},
    "gemma": DECODER | {"head_dim": 16},
    "gemma2": DECODER | {"head_dim": 16},
    "gemma3_text": DECODER | {"head_dim": 16},
    "gpt2": {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "type_vocab_size": 0},
    "llama": DECODER,
    "modernbert": MODERNBERT,
    "mpnet": {"type_vocab_size": 0},
    "qwen2": DECODER,
    "qwen3": DECODER | {"head_dim": 16},
}
# Families that `subtune.methods.roles` does not describe.
UNDESCRIBED: dict[str, dict[str, Any]] = {
    "bart": {
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "dropout": 0.0,
        "decoder_start_token_id": 2,
        "type_vocab_size": 0,
    },
    "ctrl": {
        "n_embd": 32,
        "dff": 64,
        "n_layer": 2,
        "n_head": 2,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "type_vocab_size": 0,
    },
    "fnet": {"type_vocab_size": 4},
    "ibert": {"type_vocab_size": 2},
    "longformer": {"attention_window": 4},
    "modernbert-decoder": MODERNBERT,
    "t5": {
        "d_model": 32,
        "d_kv": 16,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 2,
        "dropout_rate": 0.0,
        "decoder_start_token_id": 0,
        "type_vocab_size": 0,
    },
    # XLNet's classifier reads the last token, and its tokenizer pads on the left.
    "xlnet": {
        "d_inner": 64,
        "d_head": 16,
        "dropout": 0.0,
        "summary_last_dropout": 0.0,
        "type_vocab_size": 0,
        "max_position_embeddings": None,
    },
}


def write(name: str, directory: Path) -> Path:
    """Write a model of a family and its tokenizer to a directory."""
    fields = SHAPE | USUAL | (FIELDS | UNDESCRIBED)[name]
    config = AutoConfig.for_model(name, **{k: v for k, v in fields.items() if v is not None})
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(directory)
    save_tokenizer(directory)
    names = ["input_ids", "attention_mask"]
    names += ["token_type_ids"] if config.to_dict().get("type_vocab_size", 0) > 1 else []
    # Otherwise transformers would expect the vocabulary files of the family.
    fields = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": names}
    (directory / "tokenizer_config.json").write_text(json.dumps(fields))
    return directory


def save_tokenizer(directory: Path) -> None:
    """Write a tokenizer with the vocabulary `WORDS` and the special tokens of BERT."""
    vocabulary = {word: i for i, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(directory / "tokenizer.json"))


def dropout_fields(directory: Path, p: float) -> dict[str, float]:
    """Return all dropout fields of a model's config, with ``p`` as their value."""
    names = json.loads((directory / "config.json").read_text())
    return {name: p for name in names if "dropout" in name or name.endswith("pdrop")}
