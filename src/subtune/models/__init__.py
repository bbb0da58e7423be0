"""Pretrained encoders: their files, their parameters, the components of a layer."""
