"""Pretrained models: their files, their dimensions, and their forward pass."""
