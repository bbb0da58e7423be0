"""The version of subtune, which `pyproject.toml` reads here and every run record keeps."""

VERSION = "0.1.0"
