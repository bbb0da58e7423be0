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

    ``versions`` are those of Python and of the installed packages that compute. ``commit`` is that
    of the repository that holds this code. It is None outside a repository, and ends in ``-dirty``
    if files were changed.
    """
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    describe = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"]
    commit = None
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        folder = Path(subtune.__file__).parent
        commit = subprocess.check_output(describe, cwd=folder, stderr=subprocess.DEVNULL, text=True)
    return {
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "commit": commit and commit.strip(),
        "versions": versions,
    }
