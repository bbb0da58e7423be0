"""Records of small runs, made as a job makes them."""

from pathlib import Path

from subtune.models.load import load_model
from subtune.runs import recording
from subtune.tasks import TASKS
from tests.helpers import examples


def record(store: Path, specs, directory: Path, checkpoints=None) -> list[str]:
    """Train runs of one task on its example rows and record them. Return the lines of the log."""
    task = TASKS[specs[0].tokens.data.task.name]
    model = load_model(directory, task.of_kind.head, task.outputs)
    tokens = examples.tokens(task, directory)
    lines: list = []
    recording.train_and_record(specs, store, model, tokens, {}, lines.append, None, checkpoints)
    return [str(line) for line in lines]


def flip_a_bit(path: Path) -> None:
    """Damage a file as a failing disk does."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
