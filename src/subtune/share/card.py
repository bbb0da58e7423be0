"""Model card of an exported run: the README.md that the hub shows and searches."""

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData, metadata_load

from subtune.analysis.claims import interval_of
from subtune.analysis.intervals import Interval
from subtune.core.errors import SubtuneError, printable
from subtune.core.files import package_file
from subtune.core.layout import Layout
from subtune.exhibits.output import escaped, share
from subtune.methods.roles import is_classifier
from subtune.models.dimensions import read_dimensions
from subtune.models.families import MEAN_CLASSIFICATION
from subtune.models.files import README, choose_head, has_token_types, read_config
from subtune.models.transformers_models import AUTO_CLASSES
from subtune.runs import records, tables
from subtune.runs.spec import Fit, RunSpec


def model_card(layout: Layout, run: str, place: str, adapter: bool) -> str:
    """Return the card of a run that is exported as a whole model, or as an ``adapter`` of PEFT.

    Args:
        layout: the results with the run.
        run: the run's id.
        place: the folder, or the repository on the hub, from which the card's code loads the model.
        adapter: whether the export is an adapter of PEFT.

    Raises:
        SubtuneError: the record or the pretrained model is missing or damaged.
    """
    store = Path(layout.records())
    spec, outcome = records.read_spec(store, run), records.read_outcome(store, run)
    pretrained = Path(layout.model(spec.model.id))
    row = tables.row_of_record(store, run, tables.given_names(layout.results))
    names = {key: row[key] for key in ("model", "task", "method")}
    names |= {"selection": spec.selection.describe()}
    names = {key: printable(" ".join(str(text).split())) for key, text in names.items()}
    seeds = list(_outcomes_of_seeds(store, spec))
    scores = _scores(spec, outcome, seeds)
    task, config = spec.tokens.data.task, read_config(pretrained)
    head = choose_head(spec.model.pooling, task.of_kind.head, config)
    code = _about_code(spec, head, has_token_types(config))
    shapes = read_dimensions(pretrained).shapes(task.outputs, head)
    # The hub allows only these characters in the name of a dataset.
    dataset = re.sub(r"[^A-Za-z0-9_.-]+", "-", row["task"])
    data = ModelCardData(
        **_inherited(pretrained / README),
        base_model=spec.model.repository,
        model_name=f"{names['model']} {names['task']} {names['method']}",
        eval_results=[
            EvalResult(code["pipeline"], dataset, names["task"], metric, score, dataset_split=split)
            for split, metric, score, *_ in scores
        ],
    )
    facts: dict[str, Any] = {key: escaped(name) for key, name in names.items()}
    facts |= {"base": names["model"], "licence": data.license, "place": place, "adapter": adapter}
    facts |= {"spec": spec, "task_spec": task, "row": row, "repr": repr}
    facts |= {"provenance": records.read_provenance(store, run), "outcome": outcome}
    facts |= {"seeds": seeds, "scores": scores} | code
    facts |= _sizes(outcome["trainable"], records.read_sizes(store, run), shapes)
    template = package_file("subtune.share", "card.md").read_text("utf-8")
    return f"{ModelCard.from_template(data, template_str=template, **facts)}".strip() + "\n"


def _scores(
    spec: RunSpec, outcome: Mapping[str, Any], seeds: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, float, int, Interval]]:
    """Return a row per score: split, metric, score, number of seeds, and interval over seeds.

    Args:
        outcome: the run's outcome.
        seeds: from `_outcomes_of_seeds`.
    """
    # A run on the rows of all folds has no scores of its own.
    scored = next(iter(seeds), outcome) if spec.recipe.refit else outcome
    rows = []
    for split, by_metric in scored["scores"].items():
        for metric, score in by_metric.items():
            values = [other["scores"][split][metric] for other in seeds if not other["diverged"]]
            interval = interval_of(values)
            shown = interval.mean if spec.recipe.refit else score
            rows.append((split, metric, shown, len(values), interval))
    return rows


def _about_code(spec: RunSpec, head: str, token_types: bool) -> dict[str, Any]:
    """Return what the code that loads the model depends on, by name in the template."""
    kind, is_fitted = spec.tokens.data.task.of_kind, isinstance(spec.recipe, Fit)
    return {
        # The hub's names of pipelines are our names of heads, except "text classification".
        "pipeline": kind.head.replace("_", "-").replace("sequence", "text"),
        "auto_class": AUTO_CLASSES[head].__name__,
        "averages": head == MEAN_CLASSIFICATION or is_fitted,
        "fitted": is_fitted,
        "several": kind.problem_type == "multi_label_classification",
        "token_types": token_types,
    }


def _sizes(
    trainable: int, trained: Mapping[str, int], shapes: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """Return the head's number of parameters, and the share of all others that the run trained.

    Args:
        trainable: the number of trained parameters.
        trained: the size of every trained tensor by its name.
        shapes: the shape of every tensor of the model by its name.
    """
    head_size = sum(size for name, size in trained.items() if is_classifier(name))
    before = sum(math.prod(shapes[name]) for name in shapes if not is_classifier(name))
    return {"head_size": head_size, "share": share((trainable - head_size) / before)}


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
                other = other.refitted(refit)
            if other.replaced(seed=spec.seed) == spec:
                yield records.read_outcome(store, run)


def _inherited(card: Path) -> dict[str, Any]:
    """Return the licence and language that the base model's card states, if it has a card."""
    fields: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, yaml.YAMLError):
        fields = metadata_load(card) or {}
    inherited = ("license", "license_name", "license_link", "language")
    return {key: fields[key] for key in inherited if isinstance(fields.get(key), str | list)}
