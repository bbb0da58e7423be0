"""The configuration of all papers in a day, on a stand-in for BERT."""

import pandas as pd
import pytest
import torch
import yaml
from transformers import AutoTokenizer, BertConfig, BertModel

from tests.helpers.project import ROOT, Project

METHODS = ("full", "bitfit", "rand_uniform")


# tests/workflow/test_papers.py has four papers on a tiny model.
@pytest.mark.nightly
def test_its_smallest_task_is_trained_and_its_claims_are_judged(glue_dir, minilm, tmp_path):
    """The model has BERT's width and vocabulary, and two layers of random weights."""
    stand_in, rte = tmp_path / "bert", tmp_path / "glue" / "RTE"
    torch.manual_seed(0)
    BertModel(BertConfig(num_hidden_layers=2)).save_pretrained(stand_in)
    AutoTokenizer.from_pretrained(minilm).save_pretrained(stand_in)
    rte.mkdir(parents=True)
    for path in (glue_dir / "RTE").glob("*.tsv"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        (rte / path.name).write_text("".join(lines[:17]), encoding="utf-8")
    config = yaml.safe_load((ROOT / "examples" / "papers-in-a-day.yaml").read_text())
    experiment = config["experiments"]["bitfit_plus"]
    experiment |= {"models": ["two-layers"], "tasks": ["rte"], "by_task": {}, "epochs": 1}
    experiment["methods"] = {method: experiment["methods"][method] for method in METHODS}
    config |= {"experiments": {"bitfit_plus": experiment}, "results": "results"}
    config |= {"source": "tsv", "glue_dir": str(rte.parent)}
    config["models"] = {"two-layers": {"path": str(stand_in)}}
    project = Project(tmp_path / "project", stand_in)
    folder = project.directory / "results" / "experiments" / "bitfit_plus"
    project.run(config, "--", "results/experiments/bitfit_plus")
    scores = pd.read_parquet(
        project.directory / "results" / "data" / "bitfit_plus" / "scores.parquet"
    )
    assert set(scores["method"]) == {*METHODS} and set(scores["seed"]) == {0, 1, 2}
    # Seeds share the rate that the first one found.
    assert (
        scores["searched"].all()
        and (scores.groupby("method")["learning_rate"].nunique() == 1).all()
    )
    claims = pd.read_csv(folder / "claims.csv").set_index("claim")
    over = claims.loc["Biases score better than the same number of random parameters", "over"]
    # A model with random weights learns nothing.
    assert over == "3 seeds × examples (one answer in 3 of the compared numbers)"
