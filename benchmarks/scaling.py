"""The time of a run's step by the model's size, examples' lengths and the number of runs.

Random weights serve for speed; the tokens are real.
"""

import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, BertConfig

from benchmarks import inputs, trainer
from benchmarks.products import flops_per_token
from subtune.training.recipe import train
from subtune.training.sweeps import runs_at_once

VOCABULARY = 30_522
SHAPES = {
    "MiniLM": BertConfig(
        vocab_size=VOCABULARY, hidden_size=384, num_hidden_layers=6, intermediate_size=1536
    ),
    "BERT-base": BertConfig(vocab_size=VOCABULARY),
    "BERT-large": BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
    ),
}
RUNS = (1, 2, 4, 8, 16)
# Larger models take minutes in fp32 alone.
PRECISIONS = {"MiniLM": ("fp32", "bf16"), "BERT-base": ("fp32",), "BERT-large": ("fp32",)}
GPU_STEPS = 16
CPU_STEPS = {"MiniLM": 8, "BERT-base": 4, "BERT-large": 1}
TURNS = {"MiniLM": 3, "BERT-base": 1, "BERT-large": 1}


def measure(
    glue_dir: Path, tasks: list[str], models: list[str], rows: int | None
) -> list[dict[str, Any]]:
    """One row per model, task, way and number of runs side by side: seconds of a run's step.

    Two epochs of few steps, of which the second counts. As many runs as subtune would take. The
    ways take turns, of which each one's fastest counts.
    """
    measured = []
    for model in models:
        steps = GPU_STEPS if torch.cuda.is_available() else CPU_STEPS[model]
        if rows is not None:
            steps = min(steps, math.ceil(rows / inputs.BATCH))
        for task in tasks:
            measured += _measure(model, task, glue_dir, steps)
    return measured


def _measure(name: str, task: str, glue_dir: Path, steps: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        AutoModel.from_config(SHAPES[name]).save_pretrained(folder)
        setting = inputs.glue(task, glue_dir, Path(folder), train=inputs.BATCH * steps, others=1)
        rows = setting.examples
        members = inputs.members(setting.model, (1e-3,) * RUNS[-1], epochs=2, method="layernorm")
        max_runs = runs_at_once(setting.model, rows["train"], members)
        counts = [runs for runs in RUNS if runs <= max_runs]
        seconds: dict[tuple[str, int], float] = {}
        for _ in range(TURNS[name]):
            turn = {}
            for precision in PRECISIONS[name]:
                ending = "" if precision == "fp32" else f", {precision}"
                alike = [inputs.at_precision(member, precision) for member in members]
                turn[f"Trainer{ending}", 1] = trainer.second_epoch(setting, alike[0]) / steps
                if precision == "bf16":
                    compiled = trainer.second_epoch(setting, alike[0], torch_compile=True)
                    turn[f"Trainer{ending}, torch.compile", 1] = compiled / steps
                for runs in counts:
                    results = train(setting.model, rows, setting.task, alike[:runs])
                    spent = sum(result.history[1]["seconds"] for result in results)
                    turn[f"subtune{ending}", runs] = spent / runs / steps
            seconds = {way: min(spent, seconds.get(way, spent)) for way, spent in turn.items()}
        flops = flops_per_token(setting, members[0])
    tokens = rows["train"].lengths.sum() / steps
    return [
        {
            "model": name,
            "task": setting.task.title,
            "way": way,
            "runs": runs,
            "tokens": float(tokens),
            "seconds": of_step,
            "flops_per_second": flops * tokens / of_step,
            "times_faster": seconds["Trainer", 1] / of_step,
        }
        for (way, runs), of_step in seconds.items()
    ]
