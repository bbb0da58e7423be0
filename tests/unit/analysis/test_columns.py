"""Declared columns: each table has them, in their order, and exhibits can read no others."""

import pytest

from subtune.analysis.columns import DTYPES, columns_of, declared, read_table
from subtune.analysis.summary import summary
from subtune.core.errors import SubtuneError
from subtune.exhibits.answer_tables import answers_table
from subtune.exhibits.output import SCORES
from tests.helpers.exhibits import results
from tests.unit.analysis.test_summary import runs

TABLES = ("runs", "scores", "summary", "answers")


def names(table):
    return [column.column for column in columns_of(table)]


@pytest.mark.parametrize("table", TABLES)
def test_a_column_is_declared_once_with_a_type_and_a_meaning(table):
    assert len(set(names(table))) == len(names(table)) > 20
    assert all(column.type in DTYPES and column.meaning for column in columns_of(table))


def test_the_tables_have_the_declared_columns_and_types(tmp_path):
    chosen = runs({"full": [0.9] * 3, "bitfit": [0.88, 0.89, 0.9]})
    answers = answers_table(results({"rte": "RTE"}, chosen=chosen)).table
    for name, table in {"summary": summary(chosen), "answers": answers}.items():
        assert list(table) == names(name)
        table.to_csv(tmp_path / "table.csv", index=False)
        again = read_table(tmp_path / "table.csv", name)
        types = {column.column: DTYPES[column.type] for column in columns_of(name)}
        assert again.dtypes.astype(str).to_dict() == types


@pytest.mark.parametrize("name", SCORES)
def test_no_exhibit_can_read_a_column_of_scores_that_is_not_declared(name):
    table = runs({"full": [0.9]}).assign(undeclared=1)
    with pytest.raises(SubtuneError, match="no row of scores for undeclared, expected a row with"):
        results({"rte": "RTE"}, **{name: table})
    assert list(declared(table.drop(columns="undeclared"), "scores"))[:2] == ["model", "task"]
