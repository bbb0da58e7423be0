"""Checkpoints: training that was cut off ends as if it had not been."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from subtune.models import encoder
from subtune.runs import recording, records
from subtune.stopping import StoppedError, stop_requests
from subtune.tasks import TASKS
from subtune.training import checkpoints
from subtune.training.checkpoints import Checkpoints, State
from subtune.training.delta import to_stored
from subtune.training.recipe import Member, train
from tests.helpers import examples

TASK = TASKS["sst2"]
IDS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def model(tiny_bert):
    """A model with dropout, whose masks are part of what decides a result."""
    model = encoder.load(tiny_bert, TASK.num_labels)
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.1
    return model


@pytest.fixture(scope="module")
def rows(tiny_bert):
    return examples.rows_of(TASK, examples.tokens(TASK, tiny_bert))


def members(model, *kinds, **recipe):
    settings = {"learning_rate": 3e-3, "epochs": 2} | recipe
    return [
        Member(examples.entries_of(kind, model), examples.recipe(**settings), 0) for kind in kinds
    ]


def stopped_every(count, folder):
    """Checkpoints of a sweep that is asked to stop at every ``count``-th occasion."""
    occasions = itertools.count(1)
    return Checkpoints(folder, 3600, lambda: "a test" if next(occasions) % count == 0 else None)


def train_in_attempts(model, rows, group, folder, count):
    """Train until it is done, and say how many attempts that took."""
    for attempt in itertools.count(1):
        keeper = stopped_every(count, folder).keeper(IDS[: len(group)], print)
        try:
            return train(model, rows, TASK, group, keeper=keeper), attempt
        except StoppedError:
            continue


def facts_of(result):
    """Everything but how long it took."""
    history = [{k: v for k, v in row.items() if k != "seconds"} for row in result.history]
    return history, result.best_epoch, result.best.scores, result.best.changes, result.trainable


def assert_same(results, expected):
    """To the last bit."""
    for one, other in zip(results, expected, strict=True):
        assert facts_of(one) == facts_of(other)
        a, b = to_stored(one.best.delta), to_stored(other.best.delta)
        assert a.keys() == b.keys()
        assert all(torch.equal(values, a[name]) for name, values in b.items())
        assert all((v == one.best.logits[k]).all() for k, v in other.best.logits.items())


# 3 steps, up to 3 evaluations and an epoch's end: one occasion after another is the last.
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "kinds", [("bitfit", "layernorm", "top"), ("lora-II", "lora-II"), ("full",), ("frozen",)]
)
def test_training_in_attempts_is_training_at_once_to_the_last_bit(
    model, rows, kinds, count, tmp_path
):
    group = members(model, *kinds)
    if count > 3 and len(kinds) == 1:
        group = members(model, *kinds, epochs=3)
    expected = train(model, rows, TASK, group)
    results, attempts = train_in_attempts(model, rows, group, tmp_path, count)
    assert attempts > 2
    assert_same(results, expected)


def test_a_run_that_diverged_before_the_cut_stays_so(model, rows, tmp_path):
    group = members(model, "bitfit", "layernorm", epochs=3, schedule="constant", warmup=0.0)
    group += members(model, "bitfit", learning_rate=1e38, epochs=3, schedule="constant", warmup=0)
    expected = train(model, rows, TASK, group)
    assert [result.diverged for result in expected] == [False, False, True]
    results, attempts = train_in_attempts(model, rows, group, tmp_path, 4)
    assert attempts > 2
    assert str([facts_of(one) for one in results]) == str([facts_of(one) for one in expected])


def keep_all_steps(folder):
    return Checkpoints(folder, 0)


def test_only_the_newest_two_stay_and_a_broken_one_is_passed_over(model, rows, tmp_path):
    group = members(model, "bitfit")
    said = []
    train(model, rows, TASK, group, keeper=keep_all_steps(tmp_path).keeper(["a"], said.append))
    [folder] = tmp_path.iterdir()
    older, newest = sorted(folder.iterdir())
    keeper = keep_all_steps(tmp_path).keeper(["a"], said.append)
    assert keeper.newest().facts["step"] == int(newest.stem)

    whole = newest.read_bytes()
    flipped = bytes([whole[-1] ^ 1])
    for damaged in (b"", whole[:40], whole[:-1], whole[:-1] + flipped, bytes(len(whole))):
        newest.write_bytes(damaged)
        said.clear()
        assert keeper.newest().facts["step"] == int(older.stem)
        assert said == [f"{newest} is not whole, and left aside"]
    older.write_bytes(b"")
    assert keeper.newest() is None


def test_what_another_version_has_kept_is_left_aside(tmp_path, monkeypatch):
    path = checkpoints.write(tmp_path / "group", State({"x": torch.zeros(1)}, {"step": 1}), ["a"])
    assert checkpoints.read(path) is not None
    assert Checkpoints(tmp_path, 0).groups(["a"]) == [["a"]]
    monkeypatch.setattr(checkpoints, "FORMAT", "another")
    assert checkpoints.read(path) is None
    assert Checkpoints(tmp_path, 0).groups(["a"]) == []


def test_a_cut_while_it_is_written_leaves_the_one_before(tmp_path, monkeypatch):
    state = State({"x": torch.arange(3.0)}, {"step": 1})
    checkpoints.write(tmp_path, state, ["a"])

    def cut(tensors, path, header):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints.safetensors.torch, "save_file", cut)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.write(tmp_path, State({"x": torch.zeros(3)}, {"step": 2}), ["a"])
    assert [path.name for path in tmp_path.iterdir()] == ["000000000001.safetensors"]


def test_the_interval_decides_when_one_is_written(tmp_path, monkeypatch):
    clock = [0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: clock[0])
    keeper = Checkpoints(tmp_path, 100).keeper(["a"], print)
    written = []

    def take():
        written.append(clock[0])
        return State({"x": torch.zeros(1)}, {"step": clock[0]})

    for clock[0], epoch_ends in ((5, True), (10, True), (60, False), (109, False), (110, False)):
        keeper.keep(take, epoch_ends)
    assert written == [10, 110]


def test_where_none_can_be_written_training_goes_on(model, rows, tmp_path):
    (tmp_path / "file").write_text("")
    said = []
    group = members(model, "bitfit", epochs=1)
    keeper = keep_all_steps(tmp_path / "file").keeper(["a"], said.append)
    [result] = train(model, rows, TASK, group, keeper=keeper)
    assert len(result.history) == 1
    assert "no checkpoint could be written" in said[0]


def sweep(tiny_bert, store, specs, kept, report=print):
    model = encoder.load(tiny_bert, TASK.num_labels)
    tokens = examples.tokens(TASK, tiny_bert)
    recording.train_and_record(specs, store, model, tokens, {}, report, None, kept)


def test_a_sweep_goes_on_where_it_was_cut_and_records_each_run_once(tiny_bert, tmp_path):
    specs = [examples.run_spec(learning_rate=rate) for rate in (1e-3, 2e-3)]
    sweep(tiny_bert, tmp_path / "expected", specs, None)
    kept = tmp_path / "kept"
    stops = 0
    while not all(records.is_recorded(tmp_path / "found", spec.id) for spec in specs):
        try:
            sweep(tiny_bert, tmp_path / "found", specs, stopped_every(4, kept))
        except StoppedError:
            stops += 1
    assert stops > 1
    assert not list(kept.iterdir())
    for spec in specs:
        for name in ("delta.safetensors", "predictions.parquet", "scores.json", "changes.csv"):
            results, expected = (tmp_path / s / spec.id / name for s in ("found", "expected"))
            assert results.read_bytes() == expected.read_bytes()


def test_a_cut_between_two_records_trains_nothing_again(tiny_bert, tmp_path, monkeypatch):
    specs = [examples.run_spec(learning_rate=rate) for rate in (1e-3, 2e-3)]
    write, kept = recording.write_record, keep_all_steps(tmp_path / "kept")

    def cut(store, spec, *rest):
        if spec == specs[1]:
            raise KeyboardInterrupt
        return write(store, spec, *rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(recording, "write_record", cut)
        sweep(tiny_bert, tmp_path, specs, kept)
    assert [records.is_recorded(tmp_path, spec.id) for spec in specs] == [True, False]
    lines = []
    sweep(tiny_bert, tmp_path, specs, kept, lambda report: lines.append(report.text))
    assert all(records.is_recorded(tmp_path, spec.id) for spec in specs)
    assert any("at step 6 of 6" in line for line in lines)
    assert not any(" loss " in line for line in lines)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT"])
def test_a_signal_becomes_a_question(name):
    with stop_requests() as stopping:
        assert stopping() is None
        os.kill(os.getpid(), getattr(signal, name))
        assert stopping() == name
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_from_the_keyboard_ends_the_job():
    program = (
        "import time\nfrom subtune.stopping import StoppedError, stop_requests\n"
        "with stop_requests():\n    print('ready', flush=True)\n"
        "    while True: time.sleep(0.1)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) != 0


def test_records_are_on_the_disk_before_their_checkpoint_is_deleted(
    tiny_bert, tmp_path, monkeypatch
):
    calls = []

    def recorded(name, path_of):
        real = getattr(os, name)

        def call(*arguments, **options):
            calls.append((name, path_of(*arguments)))
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, call)

    recorded("fsync", lambda handle: Path(f"/proc/self/fd/{handle}").readlink())
    recorded("rename", lambda draft, target: target)
    recorded("unlink", lambda path: Path(path).name)
    specs = [examples.run_spec(learning_rate=rate) for rate in (1e-3, 2e-3)]
    store = tmp_path / "runs"
    sweep(tiny_bert, store, specs, keep_all_steps(tmp_path / "kept"))
    deleted = calls.index(("unlink", "000000000006.safetensors"))
    for spec in specs:
        renamed = calls.index(("rename", store / spec.id))
        flushed = [path for name, path in calls[:renamed] if name == "fsync"]
        of_run = {path.name for path in flushed if path.parent.name.startswith(f".{spec.id}.")}
        assert of_run == {path.name for path in (store / spec.id).iterdir()}
        assert ("fsync", store) in calls[renamed:deleted]
