"""The step `tokens`: tokenize the examples of one task."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context

# The time that a job requests, and the memory that it needs in addition to the token ids.
JOB_MINUTES = 30
MEMORY_MB = 1000


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each combination of task, maximum length and tokenizer."""
    layout = context.layout
    for key, tokens in context.plan.tokens.items():
        inputs = {"rows": layout.dataset(tokens.data.key), "model": layout.model(tokens.tokenizer)}
        outputs = {"tokens": layout.tokens(key)}
        memory = MEMORY_MB + context.estimates.examples_mb(tokens)
        needed = {"mem_mb": int(memory), "minutes": JOB_MINUTES}
        yield Job("tokens", key, tokens.json_types, inputs, outputs, needed)


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Tokenize the examples of one task, and write all splits as Arrow files."""
    from subtune.data.load import read_splits, tokenize
    from subtune.runs.spec import TokensSpec

    spec = TokensSpec.model_validate(job.spec)
    rows, model = Path(job.inputs["rows"]), Path(job.inputs["model"])
    settings = spec.max_length, spec.doc_stride, spec.apart
    tokens = tokenize(spec.data.task, read_splits(rows), model, *settings)
    tokens.save_to_disk(outputs["tokens"])
