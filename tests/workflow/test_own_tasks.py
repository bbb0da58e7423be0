"""The example of words and questions, trained as the README says."""

import json
import shutil
from collections import Counter

import pandas as pd
import pytest
import yaml

from tests.helpers.project import ROOT, Project

EXAMPLE = ROOT / "examples" / "own-words-and-questions.yaml"

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def scores(tmp_path_factory, minilm) -> pd.Series:
    """Dev score of each task and method."""
    config = yaml.safe_load(EXAMPLE.read_text())
    project = Project(tmp_path_factory.mktemp("own"), minilm)
    shutil.copytree(ROOT / "examples", project.directory / "examples")
    project.run(config)
    data = project.directory / config["results"] / "data" / "mine"
    chosen = pd.read_parquet(data / "scores.parquet")
    return chosen[chosen["decides"]].set_index(["task", "method"])["value"]


def test_every_method_labels_words_better_than_by_the_most_frequent_label(scores):
    lines = (ROOT / "examples" / "recipes-dev.jsonl").read_text().splitlines()
    counts = Counter(label for line in lines for label in json.loads(line)["label"])
    assert scores["recipes"].min() > counts.most_common(1)[0][1] / counts.total() + 0.1


def test_every_method_answers_better_than_one_that_does_not_read_the_question(scores):
    # Each context answers three questions.
    assert scores["shops"].min() > 1 / 3 + 0.1
