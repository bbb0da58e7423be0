"""Basic utilities that do not depend on models or tasks: errors, files, content ids, processes."""

# `pyproject.toml` reads the version from here, and every run record stores it.
VERSION = "0.1.0"
