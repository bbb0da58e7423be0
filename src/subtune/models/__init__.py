"""Pretrained models: files, dimensions, and the forward pass.

All functions raise a `SubtuneError` if a file is missing or unreadable, or if transformers, PEFT or
subtune does not support the model.
"""
