"""Model card of an exported run: the README.md that the hub shows, and finds models by."""

import contextlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData, metadata_load

from subtune.analysis import verdicts
from subtune.core import resources
from subtune.core.errors import SubtuneError, printable
from subtune.core.layout import Layout
from subtune.data.repositories import repository_of
from subtune.exhibits.tables.writing import EMPTY, escaped, share
from subtune.families.base import (
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
    is_classifier,
)
from subtune.models.configuration import has_token_types, read_config
from subtune.models.dimensions import dimensions_in
from subtune.models.files import README
from subtune.models.transformers_models import AUTO_CLASSES
from subtune.runs import listing, records
from subtune.selections.specs import RunSpec

# The hub's names of what models with a head do. The template has code for each.
PIPELINES = {
    SEQUENCE_CLASSIFICATION: "text-classification",
    TOKEN_CLASSIFICATION: "token-classification",
    QUESTION_ANSWERING: "question-answering",
}
# Fields that the card of the base hands down.
INHERITED = ("license", "license_name", "license_link", "language")


def model_card(layout: Layout, run: str, place: str, adapter: bool) -> str:
    """Return the card of a run that is exported as a whole model, or as an ``adapter`` of PEFT.

    Its code loads the model from ``place``, a folder or a repository on the hub.

    Raises:
        SubtuneError: the record or the pretrained model is missing or damaged.
    """
    store = Path(layout.records())
    spec, outcome = records.read_spec(store, run), records.read_outcome(store, run)
    pretrained = Path(layout.model(spec.model.id))
    task, config = spec.tokens.data.task, read_config(pretrained)
    row = listing.row(store, run, listing.given_names(layout.results).get(run))
    named = {key: _in_one_line(row[key]) for key in ("model", "task", "method")}
    pipeline = PIPELINES[task.of_kind.head]
    of_dataset = _dataset(spec, named["task"])
    seeds = _outcomes_of_seeds(store, spec)
    results, scores = [], []
    for split, by_metric in outcome["scores"].items():
        for metric, score in by_metric.items():
            of_metric = {"metric_type": metric, "metric_value": score, "dataset_split": split}
            results.append(EvalResult(task_type=pipeline, **of_dataset, **of_metric))
            of_seeds = [other["scores"][split][metric] for other in seeds if not other["diverged"]]
            mean, low, high = verdicts.interval(of_seeds)
            bounds = EMPTY if math.isnan(low) else f"{low:.4f} to {high:.4f}"
            scores.append((split, metric, f"{score:.4f}", f"{mean:.4f}", len(of_seeds), bounds))
    shapes = dimensions_in(pretrained).shapes(task.outputs, task.of_kind.head)
    before = sum(math.prod(shapes[name]) for name in shapes if not is_classifier(name))
    sizes = records.read_sizes(store, run)
    head = sum(size for name, size in sizes.items() if is_classifier(name))
    inherited = _inherited(pretrained)
    relation = "adapter" if adapter else "finetune"
    data = ModelCardData(
        **inherited,
        base_model=spec.model.repository,
        base_model_relation=relation if spec.model.repository else None,
        library_name="peft" if adapter else "transformers",
        pipeline_tag=pipeline,
        datasets=of_dataset["dataset_type"] if "dataset_revision" in of_dataset else None,
        metrics=list(task.metrics),
        tags=["subtune", *(["peft"] if adapter else [])],
        model_name=" ".join(named.values()),
        eval_results=results,
    )
    card = ModelCard.from_template(
        data,
        template_str=resources.path_of("subtune.exhibits", "model_card.md").read_text("utf-8"),
        **{key: escaped(name) for key, name in named.items()},
        name_of_base=named["model"],
        selection=escaped(_in_one_line(spec.selection.in_words())),
        adapter=adapter,
        auto_class=AUTO_CLASSES[task.of_kind.head].__name__,
        diverged=sum(other["diverged"] for other in seeds),
        head=head,
        licence=inherited.get("license"),
        outcome=outcome,
        pipeline=pipeline,
        place=place,
        provenance=records.read_provenance(store, run),
        repr=repr,
        row=row,
        scores=scores,
        seeds=len(seeds),
        share=share((outcome["trainable"] - head) / before),
        spec=spec,
        labels=list(task.labels or ()),
        outputs=task.outputs,
        token_types=has_token_types(config),
    )
    return f"{card.content.strip()}\n"


def _in_one_line(name: Any) -> str:
    """Return a name, which may be anything, without ends of lines and control characters."""
    return printable(" ".join(str(name).split()))


def _dataset(spec: RunSpec, task: str) -> dict[str, str]:
    """Return the dataset's fields of a result. The hub takes letters, digits and three signs."""
    of_task = {"dataset_name": task, "dataset_type": re.sub(r"[^A-Za-z0-9_.-]+", "-", task)}
    if spec.tokens.data.source == "hub":
        repository = repository_of(spec.tokens.data.task.name).name
        of_task |= {"dataset_type": repository, "dataset_revision": spec.tokens.data.version}
    return of_task


def _outcomes_of_seeds(store: Path, spec: RunSpec) -> list[dict[str, Any]]:
    """Return the outcomes of all recorded runs that differ from a run in no more than the seed."""
    found = []
    for run in records.all_runs(store):
        # A damaged record is no reason not to share another one.
        with contextlib.suppress(SubtuneError):
            if records.read_spec(store, run).replaced(seed=spec.seed) == spec:
                found.append(records.read_outcome(store, run))
    return found


def _inherited(pretrained: Path) -> Mapping[str, Any]:
    """Return what the pretrained model's own card says in fields that hold for this one too."""
    try:
        fields = metadata_load(pretrained / README) or {}
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return {key: fields[key] for key in INHERITED if isinstance(fields.get(key), str | list)}
