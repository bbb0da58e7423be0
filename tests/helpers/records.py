"""Records of small runs, made as a job makes them."""

import shutil
from pathlib import Path

from subtune.models.load import load_model
from subtune.runs import recording
from subtune.tasks import TASKS
from tests.helpers import examples


def record(store: Path, specs, directory: Path, checkpoints=None) -> list[str]:
    """Train runs of one task on its example rows and record them. Return the lines of the log."""
    task = TASKS[specs[0].tokens.data.task.name]
    model = load_model(directory, task.of_kind.head, task.outputs, specs[0].model.pooling)
    tokens = examples.tokens(task, directory)
    lines: list = []
    recording.train_and_record(specs, store, model, tokens, {}, lines.append, None, checkpoints)
    return [str(line) for line in lines]


def recorded(
    results: Path,
    directory: Path,
    selection,
    task="sst2",
    learning_rate=3e-2,
    seeds=1,
    pooling=None,
    labels="raw",
):
    """The first of a task's runs on record in ``results``, beside its model, and its tokens."""
    spec = examples.run_spec(selection, task, learning_rate=learning_rate, labels=labels)
    spec = spec.replaced(model=spec.model.replaced(pooling=pooling))
    shutil.copytree(directory, results / "models" / spec.model.id, dirs_exist_ok=True)
    record(results / "runs", [spec.replaced(seed=seed) for seed in range(seeds)], directory)
    return spec, examples.tokens(TASKS[task], directory)


def flip_a_bit(path: Path) -> None:
    """Damage a file as a failing disk does."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
