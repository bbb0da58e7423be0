"""Provenance of runs: where and with what they were trained. It decides no result."""

import contextlib
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import subtune
from subtune.core.hardware import device_name

PACKAGES = ("subtune", "torch", "transformers", "peft", "tokenizers", "datasets")


def provenance(device: torch.device) -> dict[str, Any]:
    """Return ``device``, ``threads``, ``commit`` and ``versions`` of this job.

    ``commit`` is None outside a repository, and ends in ``-dirty`` if files were changed.
    """
    return {
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "commit": commit(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that compute."""
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def commit() -> str | None:
    """Return the commit of the repository that holds this code."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"]
    try:
        described = subprocess.run(
            command, cwd=Path(subtune.__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()
