"""Checkpoints: interrupted training has the same results as uninterrupted training."""

import itertools
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from subtune.core.errors import SubtuneError
from subtune.core.process import StoppedError
from subtune.models.encoder import load_encoder
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.runs import records
from subtune.tasks import TASKS
from subtune.training import checkpoints, groups, recipe, recorded_runs
from subtune.training.checkpoints import Checkpoints, CheckpointStore
from subtune.training.groups import train_side_by_side
from subtune.training.recipe import train
from tests.helpers import examples
from tests.unit.training.results import (
    FILES,
    assert_close,
    assert_same,
    assert_same_files,
    facts_of,
    member,
)

TASK = TASKS["sst2"]
IDS = "abcd"
FOUR = ("bitfit", "layernorm", "bitfit", "top")


@pytest.fixture(scope="module")
def model(tiny_bert):
    """A model with dropout, whose masks affect results."""
    model = load_encoder(tiny_bert, SEQUENCE_CLASSIFICATION, TASK.outputs)
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.1
    return model


def members(model, *kinds, **recipe):
    settings = {"learning_rate": 3e-3, "epochs": 2} | recipe
    return [member(kind, model, **settings) for kind in kinds]


def stopped_every(count, folder):
    """Checkpoints of a sweep that is asked to stop at every ``count``-th opportunity."""
    occasions = itertools.count(1)
    return Checkpoints(folder, 3600, lambda: "a test" if next(occasions) % count == 0 else None)


@pytest.fixture
def in_attempts(model, rows, tmp_path):
    """A function that trains a group, stopped at every ``count``-th opportunity."""

    def in_attempts(group, count):
        for attempt in itertools.count(1):
            keeper = CheckpointStore(stopped_every(count, tmp_path), IDS[: len(group)], print)
            try:
                results = train(model, rows, TASK, group, keeper=keeper)
            except StoppedError:
                continue
            assert attempt > 2
            return results

    return in_attempts


# 3 steps and up to 3 evaluations: each opportunity is the last once.
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "kinds", [("bitfit", "layernorm", "top"), ("lora-II", "lora-II"), ("full",), ("frozen",)]
)
@pytest.mark.fault("numbers", "a group is interrupted", "same bits, if the same group continues")
def test_training_in_attempts_is_training_at_once_to_the_last_bit(
    model, rows, kinds, count, in_attempts
):
    group = members(model, *kinds, epochs=3 if count > 3 and len(kinds) == 1 else 2)
    assert_same(in_attempts(group, count), train(model, rows, TASK, group))


@pytest.mark.parametrize("kind", ["full", "top"])
def test_matrices_in_bf16_continue_from_their_fp32_values(model, rows, kind, in_attempts):
    group = members(model, kind, precision="bf16")
    assert_same(in_attempts(group, 2), train(model, rows, TASK, group))


def test_a_run_that_diverged_before_the_cut_stays_so(model, rows, in_attempts):
    settings = {"epochs": 3, "schedule": "constant", "warmup": 0.0}
    group = members(model, "bitfit", "layernorm", **settings)
    group += members(model, "bitfit", learning_rate=1e38, **settings)
    expected = train(model, rows, TASK, group)
    assert [result.diverged for result in expected] == [False, False, True]
    assert str([*map(facts_of, in_attempts(group, 4))]) == str([*map(facts_of, expected)])


@pytest.mark.fault(
    "files", "a checkpoint is damaged or of another version", "the previous one is used, if any"
)
def test_only_the_newest_two_stay_and_a_broken_one_is_passed_over(model, rows, tmp_path):
    said = []
    keeper = CheckpointStore(Checkpoints(tmp_path, 0), ["a"], said.append)
    train(model, rows, TASK, members(model, "bitfit"), keeper=keeper)
    older, newest = sorted(tmp_path.glob("*/*"))
    [state] = keeper.read_newest()
    assert newest.name.startswith(f"{state['step']:012d}.")

    whole = newest.read_bytes()
    place = whole.index(state["optimizer"][0].numpy().tobytes())
    flipped = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    for damaged in (b"", whole[:40], whole[:-1], flipped, bytes(len(whole))):
        newest.write_bytes(damaged)
        said.clear()
        assert older.name.startswith(f"{keeper.read_newest()[0]['step']:012d}.")
        assert said == [f"a checkpoint {newest.name} in {tmp_path} is damaged and is ignored"]
    older.write_bytes(b"")
    assert keeper.read_newest() is None


def test_runs_go_on_from_the_newest_step_that_all_of_them_have(tmp_path):
    keeper = CheckpointStore(Checkpoints(tmp_path, 0), "ab", print)
    for step in (1, 2):
        keeper.write([{"step": step}, {"step": step}])
    (tmp_path / "b" / f"{2:012d}{checkpoints.ENDING}").unlink()
    assert keeper.read_newest() == [{"step": 1}, {"step": 1}]
    newest = [keeper.checkpoints.newest_name(run) for run in "abc"]
    assert newest == [f"{step:012d}{checkpoints.ENDING}" for step in (2, 1)] + [None]


def test_what_another_version_has_kept_is_left_aside(tmp_path, monkeypatch):
    keeper = CheckpointStore(Checkpoints(tmp_path, 0), "a", print)
    keeper.write([{"step": 1}])
    assert keeper.read_newest() == [{"step": 1}]
    monkeypatch.setattr(checkpoints, "ENDING", ".another.pt")
    assert keeper.read_newest() is None


def test_a_cut_while_it_is_written_leaves_the_one_before(tmp_path, monkeypatch):
    keeper = CheckpointStore(Checkpoints(tmp_path, 0), "a", print)
    keeper.write([{"step": 1}])

    def cut(tensors, path, header):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints.safetensors.torch, "save_file", cut)
    with pytest.raises(KeyboardInterrupt):
        keeper.write([{"step": 2}])
    assert [path.name for path in tmp_path.glob("*/*")] == [f"{1:012d}{checkpoints.ENDING}"]


def test_the_interval_decides_when_one_is_written(tmp_path, monkeypatch):
    clock = [0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: clock[0])
    keeper = CheckpointStore(Checkpoints(tmp_path, 100), ["a"], print)
    written = []

    def take():
        written.append(clock[0])
        return [{"step": clock[0]}]

    for clock[0] in (99, 100, 199, 200):
        keeper.write_if_due(take)
    assert written == [100, 200]


def test_where_none_can_be_written_training_goes_on(model, rows, tmp_path):
    (tmp_path / "file").write_text("")
    said = []
    keeper = CheckpointStore(Checkpoints(tmp_path / "file", 0), ["a"], said.append)
    [result] = train(model, rows, TASK, members(model, "bitfit"), keeper=keeper)
    assert len(result.history) == 2
    assert "cannot write a checkpoint" in said[0]


SPECS = [examples.run_spec(learning_rate=rate) for rate in (1e-3, 2e-3)]


@pytest.fixture
def record(model, tokens):
    """A function that trains and records two runs."""

    def record(store, kept, report=print):
        recorded_runs.train_and_record(SPECS, store, model, tokens, {}, report, kept)

    return record


def test_a_sweep_goes_on_where_it_was_cut_and_records_each_run_once(record, tmp_path):
    record(tmp_path / "expected", None)
    kept = tmp_path / "kept"
    stops = 0
    while not all(records.is_recorded(tmp_path / "found", spec.id) for spec in SPECS):
        try:
            record(tmp_path / "found", stopped_every(4, kept))
        except StoppedError:
            stops += 1
    assert stops > 1
    assert not list(kept.iterdir())
    for spec in SPECS:
        stores = tmp_path / "found", tmp_path / "expected"
        assert_same_files(stores[0], spec.id, stores[1], spec.id, [*FILES, "scores.json"])


def test_a_cut_between_two_records_trains_nothing_again(record, tmp_path, monkeypatch):
    write, kept = recorded_runs.write_record, Checkpoints(tmp_path / "kept", 0)

    def cut(store, spec, *rest):
        if spec == SPECS[1]:
            raise KeyboardInterrupt
        return write(store, spec, *rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(recorded_runs, "write_record", cut)
        record(tmp_path, kept)
    assert [records.is_recorded(tmp_path, spec.id) for spec in SPECS] == [True, False]
    lines = []
    record(tmp_path, kept, lines.append)
    assert all(records.is_recorded(tmp_path, spec.id) for spec in SPECS)
    assert any("from step 6 of 6" in line for line in lines)
    assert not any(" loss " in line for line in lines)


def test_records_are_on_the_disk_before_their_checkpoint_is_deleted(record, tmp_path, monkeypatch):
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
    store = tmp_path / "runs"
    record(store, Checkpoints(tmp_path / "kept", 0))
    deleted = calls.index(("unlink", f"{6:012d}{checkpoints.ENDING}"))
    for spec in SPECS:
        renamed = calls.index(("rename", store / spec.id))
        flushed = [path for name, path in calls[:renamed] if name == "fsync"]
        of_run = {path.name for path in flushed if path.parent.name.endswith(f".{spec.id}")}
        assert of_run == {path.name for path in (store / spec.id).iterdir()}
        assert ("fsync", store) in calls[renamed:deleted]


class Sweep:
    """Runs that train with checkpoints in a folder, and the reports."""

    def __init__(self, model, rows, folder, group):
        self.model, self.rows, self.folder = model, rows, folder
        named = zip(group, IDS, strict=False)
        self.group = [replace(run, id=run_id, name=run_id) for run, run_id in named]
        self.reports = []

    def results(self, size=None, kept=True, runs=IDS):
        """Train some runs, at most ``size`` side by side; return their results in order."""
        checkpoints = Checkpoints(self.folder, 3600) if kept is True else kept
        chosen = sorted(self.group, key=lambda run: runs.find(run.id))
        chosen = [run for run in chosen if run.id in runs]
        self.reports.clear()
        with pytest.MonkeyPatch.context() as patch:
            if size:
                patch.setattr(groups, "runs_at_once", lambda *of: size)
            shared = self.model, self.rows, TASK, chosen, self.reports.append, checkpoints
            return sorted(train_side_by_side(*shared), key=lambda run: run.id)

    def cut(self, count, size=None):
        """Train for ``count`` opportunities to stop."""
        with pytest.raises(StoppedError):
            self.results(size, stopped_every(count, self.folder))

    @property
    def resumed(self):
        """The steps from which groups of runs continued."""
        steps = (re.search(r"continues from step (\d+)", line) for line in self.reports)
        return [int(step[1]) for step in steps if step]


@pytest.fixture
def sweep(model, rows, tmp_path):
    return Sweep(model, rows, tmp_path, members(model, *FOUR))


@pytest.fixture(scope="module")
def expected(model, rows):
    """The results of `FOUR` without interruptions."""
    return train(model, rows, TASK, members(model, *FOUR))


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize(("kinds", "size"), [(FOUR, 1), (FOUR, 2), (("lora-II",) * 4, 2)])
def test_what_was_cut_goes_on_in_smaller_groups(model, rows, kinds, size, count, tmp_path):
    group = members(model, *kinds)
    sweep = Sweep(model, rows, tmp_path, group)
    sweep.cut(count)
    assert_close(sweep.results(size), train(model, rows, TASK, group))
    assert len(sweep.resumed) == 4 / size


def test_runs_that_are_still_asked_for_go_on_without_the_others(sweep, expected):
    sweep.cut(5)
    assert_close(sweep.results(runs="db"), [expected[1], expected[3]])
    assert len(sweep.resumed) == 1


def test_parts_of_a_group_go_on_from_their_own_newest_checkpoint(sweep, expected):
    sweep.cut(2)
    sweep.cut(2, size=2)
    assert_close(sweep.results(2), expected)
    assert sweep.resumed == [3, 2]


def test_a_checkpoint_of_another_kind_of_device_has_new_masks(sweep, expected):
    sweep.cut(2)
    keeper = CheckpointStore(Checkpoints(sweep.folder, 0), IDS, print)
    states = keeper.read_newest()
    # A CUDA generator's state has 16 bytes.
    masks = states[0]["masks"][0] | {"device": "cuda"}, torch.zeros(16, dtype=torch.uint8)
    keeper.write([state | {"masks": masks} for state in states])
    results = sweep.results()
    told = f"from cuda to cpu, so dropout masks are drawn from the new seed {states[0]['step']}"
    assert any(told in line for line in sweep.reports)
    assert all(len(result.history) == 2 and not result.diverged for result in results)
    losses = [of[0].history[0]["train_loss"] for of in (results, expected)]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.2)


DEVICE = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
PROCESSOR = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory"
)


@pytest.fixture
def too_many(monkeypatch):
    """A function that plants an allocator's error."""

    def too_many(fits, error, after=0):
        """Fail for more than ``fits`` runs, ``after`` a number of passes."""
        passes = itertools.count()
        logits = recipe.compute_logits

        def compute(*arguments):
            predicted = logits(*arguments)
            if len(predicted) > fits and next(passes) >= after:
                raise error
            return predicted

        monkeypatch.setattr(recipe, "compute_logits", compute)

    return too_many


@pytest.mark.parametrize(
    "error", [DEVICE, PROCESSOR, MemoryError()], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.fault(
    "numbers",
    "runs do not fit into memory",
    "groups are halved; for a single run, a message says what would help",
)
def test_what_does_not_fit_goes_on_by_halves_from_its_last_checkpoint(
    sweep, expected, too_many, error, kept
):
    too_many(2, error, after=4)
    every_step = Checkpoints(sweep.folder, 0) if kept else None
    assert_close(sweep.results(kept=every_step), expected)
    assert (
        "4 runs side by side do not fit into memory, so they are split into groups of 2 and 2"
        in sweep.reports
    )
    assert sweep.resumed == ([4, 4] if kept else [])


def test_a_run_that_does_not_fit_by_itself_says_what_would(sweep, too_many):
    too_many(0, DEVICE)
    with pytest.raises(
        SubtuneError, match=r"run a: .* does not fit into memory with batch_size 4; "
    ):
        sweep.results()


def test_other_errors_are_no_want_of_memory(sweep, too_many):
    too_many(0, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        sweep.results()
