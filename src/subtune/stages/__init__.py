"""Stages: the plan as a file, and the one function that does a stage, whoever asks."""
