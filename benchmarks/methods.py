"""Size, time and memory of each method of docs/leaderboard.md, trained alone.

    .venv/bin/python -m benchmarks.methods --glue-dir /path/to/glue

MiniLM trains on 1,000 rows of SST-2, as in examples/leaderboard.yaml. The time is that of the
last epoch: a GPU captures steps in the first ones. Memory is the maximum that tensors take on a GPU
beyond the pretrained model. A CPU gives no such number.
"""

import argparse
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import torch
import yaml

from benchmarks import inputs
from subtune.core.process import device_name, keep_freed_memory
from subtune.methods import find_selection
from subtune.models.model_files import model_version, package_directory
from subtune.runs.spec import DataSpec, ModelSpec, RunSpec, TokensSpec
from subtune.tasks import TASKS
from subtune.training.groups import train_runs

EXAMPLE = Path(__file__).parents[1] / "examples" / "leaderboard.yaml"
TASK, ROWS, BATCH = "sst2", 1000, 32
EPOCHS = {"cpu": 1, "cuda": 4}
# One evaluated row: the times are those of training.
EVALUATED = 1
MEGABYTE = 2**20


def methods() -> list[str]:
    """Return the methods of the leaderboard that train."""
    trial = yaml.safe_load(EXAMPLE.read_text("utf-8"))["experiments"]["leaderboard"]
    return [method for method, rates in trial["methods"].items() if rates]


def run_of(method: str, precision: str) -> RunSpec:
    """Return a run with the leaderboard's batches."""
    version = model_version(package_directory(inputs.MINILM))
    model = ModelSpec(source="files", version=version, pooling="mean")
    data = DataSpec(task=TASKS[TASK], source="tsv", version="benchmark")
    tokens = TokensSpec(data=data, tokenizer=model.id, max_length=inputs.MAX_LENGTH)
    recipe = inputs.recipe(1e-3, EPOCHS[inputs.device()])
    recipe = recipe.replaced(batch_size=BATCH, precision=precision)
    selection = find_selection(method, {})
    return RunSpec(model=model, tokens=tokens, selection=selection, recipe=recipe, seed=0)


def measure(glue_dir: Path, precision: str) -> Iterator[dict[str, Any]]:
    """Yield the method, its number of trained parameters, milliseconds a step and memory."""
    setting = inputs.glue(TASK, glue_dir, train=ROWS, others=EVALUATED)
    steps = -(-ROWS // BATCH)
    for method in methods():
        before = _begin_memory()
        runs = {method: run_of(method, precision)}
        trained = train_runs(setting.model, setting.examples, runs, {}, lambda *line: None)
        [(_, result, _)] = trained
        row = {"method": method, "parameters": result.trainable}
        row["ms a step"] = round(1000 * result.history[-1]["seconds"] / steps, 2)
        if before is not None:
            row["MB"] = round((torch.cuda.max_memory_allocated() - before) / MEGABYTE)
        yield row


def _begin_memory() -> int | None:
    """Return the bytes of tensors on a GPU, and begin to watch their maximum."""
    gc.collect()
    if not torch.cuda.is_available():
        return None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.methods", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--glue-dir", type=Path, required=True, help="GLUE in the official layout")
    parser.add_argument("--precision", default="fp32", help="default: fp32")
    options = parser.parse_args()
    keep_freed_memory()
    datasets.disable_progress_bars()
    print(device_name(torch.device(inputs.device())), options.precision)
    rows = []
    for row in measure(options.glue_dir, options.precision):
        print(row, flush=True)
        rows.append(row)
    print(pd.DataFrame(rows).to_markdown(index=False))


if __name__ == "__main__":
    main()
