"""Simulated studies: their truth is what many rows and seeds score."""

import numpy as np
import pytest
from benchmarks import folds, studies

from subtune.analysis import crossed


@pytest.mark.parametrize("metric", studies.METRICS)
def test_the_truth_of_simulated_studies_is_what_many_rows_and_seeds_score(metric):
    setting = studies.Setting(metric, 100, 2000, "seeds that differ")
    scores, _ = studies.simulated(setting, [0.0, -0.02], np.random.default_rng(0))
    full, method = scores.mean(1)
    expected = studies.true_scores(metric, setting.effects)[len(studies.SHIFTS) // 2]
    assert full == pytest.approx(expected, abs=0.03)
    assert method - full == pytest.approx(-0.02, abs=0.04)


@pytest.mark.parametrize("metric", studies.METRICS)
def test_pseudo_values_of_all_runs_at_once_are_those_of_each(metric):
    generator = np.random.default_rng(0)
    values, is_one = generator.normal(0.5, 1, (3, 60)), generator.random(60) < 0.4
    scores, parts = studies.scored(metric, values, is_one)
    for of_run, score, of_parts in zip(values, scores, parts, strict=True):

        def of_rows(mask, of_run=of_run):
            return studies.scored(metric, of_run[mask], is_one[mask])[0]

        expected, _ = crossed.pseudo_values(of_rows, np.arange(60))
        assert score == pytest.approx(of_rows(np.ones(60, bool)))
        assert of_parts == pytest.approx(expected, abs=1e-5)


def test_methods_that_stop_leave_their_seeds_to_the_others():
    setting = studies.Setting("accuracy", studies.MOST_SEEDS, 200, "alike seeds")
    truths = np.array([0.0, 0.1, 0.1, 0.1, 0.1, -0.02])
    simulated = studies.simulated(setting, truths, np.random.default_rng(0))
    _, runs = studies.sequential(setting, *simulated, 0)
    chances, fewer = studies.sequential(setting, *simulated, 2)
    assert runs == 30 and fewer <= 30
    assert (chances[:4] > 0.98).all() and chances[4] < 0.98


@pytest.mark.slow
def test_a_table_has_every_setting_and_a_picture_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(studies, "ROWS", (40, 80))
    monkeypatch.setattr(studies, "SEEDS", (1, 3))
    monkeypatch.setattr(studies, "TRUTHS", (-0.02, 0.0))
    monkeypatch.setattr("sys.argv", ["studies", "--studies", "3", "--to", str(tmp_path)])
    studies.main()
    text = (tmp_path / "intervals.md").read_text()
    assert "192 studies" in text and "nan" not in text
    assert (tmp_path / "calibration.png").stat().st_size > 10_000


def test_cross_validation_of_cheap_learners_gives_every_interval():
    generator = np.random.default_rng(0)
    features = generator.normal(0, 1, (600, 80))
    rows = folds.Rows(features, features[:, 0] + generator.normal(0, 1, 600) > 0)
    found = [folds.validated(rows, 200, generator) for _ in range(3)]
    of_accuracy, _, truth = found[0][0]
    assert of_accuracy.shape == truth.shape == (10,) and found[0][0][1].shape == (10, 40)
    table = folds.judged(found, 0, 200).assign(task="any", rows=200)
    assert len(table) == 3 * table["interval"].nunique() and table["half-width"].gt(0).all()
    assert "nan" not in folds.in_markdown(table, 3)
