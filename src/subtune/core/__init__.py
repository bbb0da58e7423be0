"""Foundations that know nothing of models or tasks: errors, files, content ids, processes."""

# `pyproject.toml` reads it here, and every run record keeps it.
VERSION = "0.1.0"
