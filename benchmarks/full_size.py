"""Run ``examples/layernorm-minilm.yaml`` and repeat three of its cells with plain transformers.

    python -m benchmarks.full_size --glue-dir /path/to/glue --minutes 9

The workflow stops after ``--minutes``, and the same command continues it. After the last run, the
command writes ``check.csv``, which compares three dev scores of the workflow with those of plain
transformers. For a short trial on a CPU, add ``--rows 200 --epochs 2 --precision fp32``.
"""

import argparse
import math
import re
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pandas as pd
import torch
import yaml
from sklearn.metrics import accuracy_score, matthews_corrcoef
from transformers import AutoModel, AutoTokenizer, get_linear_schedule_with_warmup

from benchmarks.inputs import MINILM, device, load_task_data
from subtune.data.sources import official_files
from subtune.models.model_files import package_directory
from subtune.steps.snakemake_calls import snakemake_command
from subtune.tasks import TASKS

EXAMPLE = Path("examples/layernorm-minilm.yaml")
# Task and method of each repeated cell, and a pattern that is found in the names of its trained
# encoder parameters. The LayerNorm of attention, `attention.output.LayerNorm`, is not trained.
CELLS = {
    ("cola", "full"): "",
    ("rte", "bitfit"): r"\.bias$",
    ("sst2", "layernorm"): r"layer\.\d+\.output\.LayerNorm",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.full_size", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--glue-dir", type=Path, required=True, help="GLUE in the official layout")
    parser.add_argument("--minutes", type=float, help="stop the workflow after MINUTES")
    parser.add_argument("--jobs", type=int, default=12, help="number of jobs that run at once")
    parser.add_argument(
        "--rows", type=int, help="use the first ROWS examples of each split (default: all)"
    )
    parser.add_argument(
        "--epochs", type=int, help="epochs per run (default: 20, as in the example)"
    )
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], help="default: bf16")
    parser.add_argument("--to", type=Path, default=Path("results/full-size"))
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    example = yaml.safe_load(EXAMPLE.read_text())
    tasks = example["experiments"]["layernorm"]["tasks"]
    glue_dir = options.glue_dir
    if options.rows:
        glue_dir = _write_first_rows(tasks, glue_dir, options.to / "glue", options.rows)
    changed = {"epochs": options.epochs, "precision": options.precision}
    changed = {name: value for name, value in changed.items() if value is not None}
    changes = {
        "results": str(options.to),
        "glue_dir": str(glue_dir),
        "experiments": dict.fromkeys(example["experiments"], changed),
    }
    changes_file = options.to / "changes.yaml"
    changes_file.write_text(yaml.safe_dump(changes))
    if not _run_workflow([EXAMPLE, changes_file], options.jobs, options.minutes):
        sys.exit("the workflow has not finished; the same command continues it")
    check = pd.DataFrame(_check_cells(options.to, glue_dir, options.epochs or 20))
    check.to_csv(options.to / "check.csv", index=False)
    print(check.to_string(index=False))


def _write_first_rows(tasks: list[str], source: Path, to: Path, rows: int) -> Path:
    """Copy the first ``rows + 1`` lines of each file, because most files have a header."""
    for name in tasks:
        for path in official_files(str(source), TASKS[name], "tsv").values():
            copy = to / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            with path.open(encoding="utf-8") as lines:
                copy.write_text("".join(islice(lines, rows + 1)), encoding="utf-8")
    return to


def _run_workflow(configurations: list[Path], jobs: int, minutes: float | None) -> bool:
    """Run the workflow; return whether it finished within ``minutes`` (None: no limit)."""
    quiet = [f"-c{jobs}", "--quiet", "rules", "progress"]
    command = snakemake_command(*quiet, "--configfile", *map(str, configurations))
    with subprocess.Popen(command) as workflow:
        try:
            return workflow.wait(minutes and 60 * minutes) == 0
        except subprocess.TimeoutExpired:
            workflow.send_signal(signal.SIGINT)  # like Ctrl-C, which keeps finished results
            return False


def _check_cells(results: Path, glue_dir: Path, epochs: int) -> list[dict[str, object]]:
    """Train the best run of each cell again with transformers; return both best dev scores."""
    runs = pd.read_csv(results / "runs.csv")
    rows = []
    for (task, method), pattern in CELLS.items():
        cell = runs[(runs.task == task) & (runs.method == method) & runs.scope.isna()]
        best = cell.loc[cell.score.idxmax()]
        scores = _train_with_transformers(task, glue_dir, pattern, best.learning_rate, epochs)
        rows.append(
            {
                "task": task,
                "method": method,
                "learning_rate": best.learning_rate,
                "subtune": best.score,
                "transformers": max(scores),
            }
        )
    return rows


def _train_with_transformers(
    name: str, glue_dir: Path, pattern: str, learning_rate: float, epochs: int
) -> list[float]:
    """Train a run with plain transformers; return the dev score after each epoch.

    Encoder parameters whose names contain a match of ``pattern`` are trained.
    """
    torch.manual_seed(0)
    task, directory = TASKS[name], package_directory(MINILM)
    splits, tokenizer = load_task_data(name, glue_dir), AutoTokenizer.from_pretrained(directory)
    model = AutoModel.from_pretrained(directory, add_pooling_layer=False).to(device())
    for parameter_name, parameter in model.named_parameters():
        parameter.requires_grad_(re.search(pattern, parameter_name) is not None)
    classifier = torch.nn.Linear(model.config.hidden_size, task.outputs).to(device())
    torch.nn.init.normal_(classifier.weight, std=0.02)
    torch.nn.init.zeros_(classifier.bias)

    def logits(rows: dict[str, list]) -> torch.Tensor:
        texts = [rows[column] for column in ("text_a", "text_b") if column in rows]
        tokens = tokenizer(
            *texts, truncation=True, max_length=128, padding=True, return_tensors="pt"
        ).to(device())
        mask = tokens["attention_mask"][..., None]
        states = (model(**tokens).last_hidden_state * mask).sum(1) / mask.sum(1)
        return classifier(torch.nn.functional.dropout(states, 0.1, model.training))

    trained = [p for p in [*model.parameters(), *classifier.parameters()] if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, learning_rate, weight_decay=0.0)
    train, dev = splits["train"], splits[task.evaluation[0]]
    steps = epochs * math.ceil(len(train) / 64)
    schedule = get_linear_schedule_with_warmup(optimizer, int(0.1 * steps), steps)
    score = matthews_corrcoef if name == "cola" else accuracy_score
    scores = []
    for epoch in range(epochs):
        model.train()
        for batch in train.shuffle(seed=epoch).iter(64):
            labels = torch.tensor(batch["label"], device=device())
            torch.nn.functional.cross_entropy(logits(batch), labels).backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            predicted = [
                label for rows in dev.iter(64) for label in logits(rows).argmax(1).tolist()
            ]
        scores.append(score(dev["label"], predicted))
    return scores


if __name__ == "__main__":
    main()
