"""Tables and figures about where methods fail."""

import numpy as np
import pandas as pd
import pytest

from subtune.analysis import failures
from subtune.analysis.failures import estimate_gains
from subtune.exhibits.failure_exhibits import (
    MOST_CONFUSIONS,
    MOST_SHOWN,
    classes_table,
    draw_confusion,
    draw_predictions_against_labels,
    more_labels_table,
    suspect_labels_table,
)
from subtune.exhibits.output import save_figure, write_table
from tests.helpers.exhibits import results
from tests.unit.analysis.test_failures import COLOURS, NUMBERS, measured, predicted


def of_labels(count, rows=500):
    rng = np.random.default_rng(0)
    task = COLOURS.replace(labels=tuple(f"label {number}" for number in range(count)))
    return predicted(task, rng.integers(0, count, rows), rng.dirichlet(np.ones(count), rows))


def confusion(*of):
    table = pd.concat([failures.count_confusions(each) for each in of])
    return draw_confusion(results({"mine": "Mine"}, confusion=table))


@pytest.mark.parametrize("count", [2, 5, 30])
def test_each_label_has_a_row_and_a_column(count, tmp_path):
    figure = confusion(of_labels(count), of_labels(count)._replace(title="BitFit"))
    save_figure(figure, [tmp_path / "confusion.png"])
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("Full", "BitFit")
    assert len(first.get_xticks()) == len(first.get_yticks()) == count


def test_of_many_labels_the_most_frequent_confusions_are_drawn():
    of = of_labels(200)
    [panel] = confusion(of).axes
    assert len(panel.patches) == MOST_CONFUSIONS
    widths = [bar.get_width() for bar in panel.patches]
    assert widths == sorted(widths, reverse=True)
    wrong = of.output.argmax(1) != of.label
    pairs = pd.Series(list(zip(of.label[wrong], of.output.argmax(1)[wrong], strict=True)))
    assert widths[0] == pairs.value_counts().iloc[0]


def test_numbers_are_drawn_against_their_predictions():
    table = failures.list_regression_predictions(predicted(NUMBERS, [1.0, 2.0], [[1.5], [1.0]]))
    [panel] = draw_predictions_against_labels(results({"mine": "Mine"}, predicted=table)).axes
    assert panel.collections[0].get_offsets().tolist() == [[1.0, 1.5], [2.0, 1.0]]


def test_of_many_labels_those_with_the_lowest_f1_are_shown():
    table = failures.score_by_class(of_labels(50))
    made = classes_table(results({"mine": "Mine"}, classes=table))
    assert (len(made.table), len(made.shown)) == (50, MOST_SHOWN)
    assert f"lowest F1, out of {50}" in made.note
    assert set(made.shown["label"]) == set(table.nsmallest(MOST_SHOWN, "f1")["label"])


def test_long_texts_of_suspects_are_cut_only_on_the_page(tmp_path):
    texts = {"text_a": ["long " * 100] * 500}
    table = failures.find_suspects(of_labels(3), texts)
    made = suspect_labels_table(results({"mine": "Mine"}, suspects=table))
    assert made.shown["text"].str.len().max() < 200
    assert len(made.shown) == MOST_SHOWN < len(made.table)
    paths = [tmp_path / f"suspects.{ending}" for ending in ("csv", "md", "tex")]
    write_table(made, paths)
    assert pd.read_csv(paths[0])["text"].str.len().min() == 500


@pytest.mark.parametrize(("noise", "is_said"), [(0.01, True), (0.3, False)])
def test_what_more_labels_add_is_said_if_the_interval_is_not_wide(noise, is_said):
    table = estimate_gains(*measured(noise=noise))
    made = more_labels_table(results({"sst2": "SST-2"}, more_labels=table))
    assert (
        "* Twice as many examples would add about 0.03 to the score of embeddings (" in made.before
    ) == is_said
    assert list(made.shown)[:3] == ["method", "125 rows", "250 rows"]
    assert len(made.shown) == 1
