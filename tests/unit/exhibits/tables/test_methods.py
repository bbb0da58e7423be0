"""SPAFIT's Table 1: what each method trains."""

import json

from subtune.models.dimensions import papers_models
from subtune.papers import printed
from subtune.selections.methods import named
from tests.helpers.exhibits import made


def test_table_1_has_the_papers_columns_and_counts(tmp_path):
    fields = papers_models()["bert-large-cased"]
    (tmp_path / "config.json").write_text(json.dumps(fields))
    methods = printed.table("spafit", "parameter_counts")["method"]
    styled = made(
        "spafit",
        "table1",
        {},
        models={"bert-large-cased": tmp_path},
        selections={method: named(method, {}).canonical() for method in methods},
    )
    table = styled.table
    ours, papers = "parameters: bert-large-cased", "paper: bert-large-cased"
    assert list(table) == ["method", "trains", ours, papers]
    assert list(table[ours]) == list(table[papers])
    assert table["trains"].tolist() == [named(method, {}).in_words() for method in methods]
    assert set(styled.wide) <= set(table)
