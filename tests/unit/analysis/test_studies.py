"""Simulated studies: their truth is what many rows and seeds score."""

import numpy as np
import pytest
from benchmarks import studies

from subtune.analysis.significance import MARGIN


@pytest.mark.parametrize("metric", studies.METRICS)
def test_the_truth_of_simulated_studies_is_what_many_rows_and_seeds_score(metric):
    setting = studies.Setting(metric, 100, 2000, "seeds that differ")
    shift = studies.shift_of(setting, -MARGIN)
    generator = np.random.default_rng(0)
    (full, _), (method, _) = studies.simulated(setting, (0.0, shift), generator)
    assert full.mean() == pytest.approx(studies.expected(setting, 0.0), abs=0.03)
    assert (method - full).mean() == pytest.approx(-MARGIN, abs=0.04)


def test_a_table_has_every_setting_and_a_plot_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(studies, "ROWS", (40,))
    monkeypatch.setattr("sys.argv", ["studies", "--studies", "3", "--to", str(tmp_path)])
    studies.main()
    text = (tmp_path / "intervals.md").read_text()
    assert "108 studies" in text and "nan" not in text
    assert (tmp_path / "intervals.png").stat().st_size > 10_000
