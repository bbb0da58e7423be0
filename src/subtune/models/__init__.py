"""Pretrained models: files, dimensions, and the forward pass."""
