"""Pretrained encoders: their files, their parameters and components, and what they compute."""
