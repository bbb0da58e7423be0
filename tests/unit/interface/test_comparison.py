"""Predictions of a comparison's method."""

import pandas as pd
import pytest

from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.interface.comparison import Comparison
from subtune.runs.export import export_model
from subtune.selections.methods import METHODS
from tests.helpers.records import recorded


def test_a_method_is_exported_once_and_rows_keep_their_index(tmp_path, tiny_bert):
    spec, _ = recorded(tmp_path, tiny_bert, METHODS["layernorm"], "rte")
    exports = []

    class Exported(Comparison):
        def export(self, method, to):
            exports.append(method)
            export_model(Layout(str(tmp_path)), spec.id, to)

    answer = Exported(tmp_path)
    pairs = [("a", "pair"), ("another", "one")]
    by_row = answer.predict("layernorm", pairs)
    table = pd.DataFrame(pairs, columns=["sentence1", "sentence2"], index=[7, 3])
    pd.testing.assert_frame_equal(answer.predict("layernorm", table), by_row.set_axis(table.index))
    assert exports == ["layernorm"]
    with pytest.raises(SubtuneError, match="texts: no such column: found 'sentence2', expected"):
        answer.predict("layernorm", table.drop(columns="sentence2"))
