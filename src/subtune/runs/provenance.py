"""Where and with what runs are trained. It decides no result."""

import contextlib
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import subtune
from subtune.core.hardware import device_name

PACKAGES = ("subtune", "torch", "transformers", "tokenizers", "datasets")


def provenance(device: torch.device) -> dict[str, Any]:
    """``device``, ``threads``, ``commit`` (none outside a repository; with ``-dirty`` where files
    were changed) and ``versions``, as a job finds them when it begins."""
    return {
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "commit": commit(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of Python, and of the packages that compute as far as they are installed as such."""
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def commit() -> str | None:
    """The commit of the repository that this code lies in."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"]
    try:
        described = subprocess.run(
            command, cwd=Path(subtune.__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()
