"""Benchmarks of steps, on a tiny model."""

import json
import re

import pytest
from benchmarks import full_size, inputs, kernels, measurements, report, scaling, values
from benchmarks.scaling import Cell
from transformers import BertConfig

from subtune.methods import METHODS
from subtune.methods.selection import require_whole
from subtune.models.encoder import load_encoder
from subtune.models.families import MEAN_CLASSIFICATION
from subtune.models.model_files import package_directory
from tests.helpers.examples import sentences

TINY = BertConfig(
    vocab_size=scaling.VOCABULARY,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
)
TRAINER, SUBTUNE = scaling.TRAINER, scaling.SUBTUNE


@pytest.fixture
def glue(tmp_path, monkeypatch):
    """A folder with 40 sentences as CoLA; every model is tiny."""
    monkeypatch.setattr(scaling, "SHAPES", dict.fromkeys(scaling.SHAPES, TINY))
    (tmp_path / "CoLA").mkdir()
    rows = [f"a\t{n % 2}\t\t{text}\n" for n, text in enumerate(sentences(40))]
    for split in ("train", "dev"):
        (tmp_path / "CoLA" / f"{split}.tsv").write_text("".join(rows))
    test = [f"{n}\t{text}\n" for n, text in enumerate(sentences(3))]
    (tmp_path / "CoLA" / "test.tsv").write_text("index\tsentence\n" + "".join(test))
    return tmp_path


def cell(way=SUBTUNE, method="layernorm", runs=1, precision="fp32"):
    return Cell("MiniLM", "cola", way, method, precision, runs)


def test_a_step_of_several_runs_is_each_ones_share(glue):
    trainer, alone, beside = scaling.measure(glue, [cell(TRAINER), cell(), cell(runs=2)])
    for row in (trainer, alone, beside):
        assert row["tokens_per_second"] == pytest.approx(row["tokens"] / row["seconds"])
        assert row["first_epoch"] > 0
    assert beside["runs"] == 2


def test_a_cell_that_fails_leaves_the_others(glue):
    problem, row = scaling.measure(glue, [cell(method="nonsense"), cell()])
    assert "nonsense" in problem["problem"]
    assert row["seconds"] > 0


def test_no_cell_begins_after_the_time_is_over(glue):
    assert [*scaling.measure(glue, [cell(), cell()], seconds=0)] == [
        {"stopped_before": list(cell())}
    ]


def test_a_gpu_measures_the_most_runs_first_and_the_compiled_trainer_last(monkeypatch):
    monkeypatch.setattr(inputs, "device", lambda: "cuda")
    of_base = scaling.cells_of_device(["BERT-base"], ["cola", "rte"])
    assert {(c.task, c.method, c.runs) for c in of_base[:8]} == {
        (task, *most) for task in ("cola", "rte") for most in (("full", 8), ("layernorm", 32))
    }
    assert {c.way for c in of_base[-4:]} == {"Trainer, torch.compile"}
    assert len(of_base) == len(set(of_base))


def test_a_table_and_a_picture_are_made_of_the_lines(glue, tmp_path, capsys, monkeypatch):
    machine = {"device": "D", "threads": 1, "torch": "2", "date": "2026-01-01"}
    measurements.write_lines(tmp_path / "machine.jsonl", [machine])
    products = {"fp32": 1e12, "bf16": 2e12}
    rows = [{"precision": name, "flops_per_second": rate} for name, rate in products.items()]
    measurements.write_lines(tmp_path / "products.jsonl", rows)
    shared = {"model": "BERT-base", "task": "CoLA", "precision": "bf16", "tokens": 200.0}
    shared |= {"tokens_per_second": 1e4, "flops_per_second": 4e11, "first_epoch": 3.0}
    rows = [
        shared | {"way": way, "method": "full", "runs": runs, "seconds": seconds, "gigabytes": 20.0}
        for way, runs, seconds in [(TRAINER, 1, 0.05), (SUBTUNE, 8, 0.004), (SUBTUNE, 8, 0.0025)]
    ]
    rows.append({"way": SUBTUNE, "method": "full", "problem": "out of memory"})
    measurements.write_lines(tmp_path / "scaling.jsonl", rows)
    monkeypatch.setattr("sys.argv", ["report", str(tmp_path), "--to", str(tmp_path)])
    report.main()
    lines = (tmp_path / "benchmarks.md").read_text().splitlines()
    [row] = [line for line in lines if "subtune" in line]
    found = [field.strip() for field in row.strip("|").split("|")]
    assert found[5:] == ["bf16", "8", "2.5", "10,000", "20.0%", "20.00", "3.0", "20.0"]
    assert (tmp_path / "steps.png").stat().st_size > 1000


@pytest.mark.parametrize("method", ["full", values.MASK, "adapter"])
def test_values_beside_others_are_those_alone(method, glue):
    [row] = values.measure(glue, ["cola"], [method])
    assert row["of_movement"] < 1e-3
    assert row["moved"] > 1e-4


def test_the_largest_difference_of_values_is_found():
    import torch

    start = {"a.weight": torch.zeros(2), "b.key.bias": torch.zeros(1)}
    expected = {"a.weight": torch.tensor([3.0, 4.0]), "b.key.bias": torch.ones(1)}
    found = {"a.weight": torch.tensor([3.0, 4.5]), "b.key.bias": torch.zeros(1)}
    row = values._compare_values([found], [expected], start)
    assert row["of_movement"] == pytest.approx(0.1)
    assert row["largest"] == pytest.approx(0.125)
    assert (row["worst"], row["keys"]) == ("a.weight", 1.0)


def test_kernels_are_those_of_the_last_epochs_steps(glue, tmp_path):
    row = kernels.profile_cell(cell(), scaling.Settings(glue, tmp_path / "model"))
    assert row["milliseconds"] > 0
    assert 0 < row["busy"] < 1.5
    counts = [count for *_, count in row["top"]]
    assert all(count >= 1 for count in counts)


def test_measurements_are_printed_and_written(tmp_path, capsys):
    measurements.write_lines(tmp_path / "lines.jsonl", [{"way": "a", "seconds": 1 / 3}])
    assert json.loads(capsys.readouterr().out) == {"way": "a", "seconds": 0.33333}
    assert (tmp_path / "lines.jsonl").read_text() == '{"way": "a", "seconds": 0.33333}\n'


@pytest.mark.parametrize("method", ["full", "bitfit", "layernorm"])
def test_cells_that_transformers_repeats_train_the_parameters_of_the_method(method):
    model = load_encoder(package_directory(inputs.MINILM), MEAN_CLASSIFICATION, 2)
    [pattern] = [pattern for (_, name), pattern in full_size.CELLS.items() if name == method]
    trained = require_whole(METHODS[method]).names(model.shapes)
    encoder = [name for name in model.shapes if not name.startswith("classifier")]
    assert [n for n in trained if n in encoder] == [n for n in encoder if re.search(pattern, n)]
