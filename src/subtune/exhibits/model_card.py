"""Model card of an exported run: the README.md that the hub shows and searches."""

import contextlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData, metadata_load

from subtune.analysis import claims
from subtune.core.errors import SubtuneError, printable
from subtune.core.layout import Layout, path_of
from subtune.exhibits.output import escaped, share
from subtune.families.base import MEAN_CLASSIFICATION, is_classifier
from subtune.models.dimensions import dimensions_in
from subtune.models.files import README, has_token_types, head_by, read_config
from subtune.models.transformers_models import AUTO_CLASSES
from subtune.runs import records, tables
from subtune.selections.specs import Fit, RunSpec


def model_card(layout: Layout, run: str, place: str, adapter: bool) -> str:
    """Return the card of a run that is exported as a whole model, or as an ``adapter`` of PEFT.

    The card's code loads the model from ``place``, a folder or a repository on the hub. A
    `SubtuneError` says that the record or the pretrained model is missing or damaged.
    """
    store = Path(layout.records())
    spec, outcome = records.read_spec(store, run), records.read_outcome(store, run)
    pretrained = Path(layout.model(spec.model.id))
    task, config = spec.tokens.data.task, read_config(pretrained)
    head = head_by(spec.model.pooling, task.of_kind.head, config)
    row = tables.row_of_record(store, run, tables.given_names(layout.results).get(run))
    names = {key: row[key] for key in ("model", "task", "method")}
    names |= {"selection": spec.selection.in_words()}
    names = {key: printable(" ".join(str(text).split())) for key, text in names.items()}
    # The hub's names of pipelines are our names of heads, except "text classification".
    pipeline = task.of_kind.head.replace("_", "-").replace("sequence", "text")
    # The hub allows only these characters in the name of a dataset.
    kind = pipeline, re.sub(r"[^A-Za-z0-9_.-]+", "-", task.name), names["task"]
    seeds = list(_outcomes_of_seeds(store, spec))
    results, scores = [], []
    # A run on the rows of all folds has no scores of its own.
    judged = next(iter(seeds), outcome) if spec.recipe.refit else outcome
    for split, by_metric in judged["scores"].items():
        for metric, score in by_metric.items():
            seed_scores = [
                other["scores"][split][metric] for other in seeds if not other["diverged"]
            ]
            interval = claims.interval_of(seed_scores)
            score = interval.mean if spec.recipe.refit else score
            results.append(EvalResult(*kind, metric, score, dataset_split=split))
            scores.append((split, metric, score, len(seed_scores), interval))
    shapes = dimensions_in(pretrained).shapes(task.outputs, head)
    before = sum(math.prod(shapes[name]) for name in shapes if not is_classifier(name))
    head_size = sum(n for name, n in records.read_sizes(store, run).items() if is_classifier(name))
    data = ModelCardData(
        **_inherited(pretrained / README),
        base_model=spec.model.repository,
        model_name=f"{names['model']} {names['task']} {names['method']}",
        eval_results=results,
    )
    facts: dict[str, Any] = {key: escaped(name) for key, name in names.items()}
    facts |= {"share": share((outcome["trainable"] - head_size) / before), "head_size": head_size}
    facts |= {"adapter": adapter, "auto_class": AUTO_CLASSES[head].__name__, "pipeline": pipeline}
    facts |= {"base": names["model"], "licence": data.license, "place": place, "repr": repr}
    facts |= {"provenance": records.read_provenance(store, run), "outcome": outcome, "row": row}
    facts |= {"seeds": seeds, "scores": scores, "spec": spec, "task_spec": task}
    facts |= {"token_types": has_token_types(config)}
    facts["several"] = task.of_kind.problem_type == "multi_label_classification"
    facts["fitted"] = isinstance(spec.recipe, Fit)
    facts["averages"] = head == MEAN_CLASSIFICATION or facts["fitted"]
    template = path_of("subtune.exhibits", "templates/model_card.md").read_text("utf-8")
    return f"{ModelCard.from_template(data, template_str=template, **facts)}".strip() + "\n"


def _outcomes_of_seeds(store: Path, spec: RunSpec) -> Iterator[dict[str, Any]]:
    """Yield the outcomes of all recorded runs that differ from a run at most in the seed.

    For a run on the rows of all folds, these are the runs of the folds.
    """
    refit = spec.recipe.refit
    for run in records.all_runs(store):
        with contextlib.suppress(SubtuneError):  # A damaged record is skipped.
            other = records.read_spec(store, run)
            if refit:
                if other.recipe.fold is None:
                    continue
                other = other.refit(refit)
            if other.replaced(seed=spec.seed) == spec:
                yield records.read_outcome(store, run)


def _inherited(card: Path) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, yaml.YAMLError):
        fields = metadata_load(card) or {}
    inherited = ("license", "license_name", "license_link", "language")
    return {key: fields[key] for key in inherited if isinstance(fields.get(key), str | list)}
