"""The store of records where others write too, and where nobody may."""

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from subtune.core.errors import SubtuneError
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.models.encoder import load_model
from subtune.runs import recording, records
from subtune.training.recipe import Member
from subtune.training.sweeps import train_sweep
from tests.helpers import examples

NOBODY = 65534


@pytest.fixture(scope="module")
def trained(tiny_bert):
    """A spec, its result, and the examples that it is of."""
    spec = examples.run_spec()
    task = spec.tokens.data.task
    rows = examples.examples_of(task, examples.tokens(task, tiny_bert))
    model = load_model(tiny_bert, SEQUENCE_CLASSIFICATION, task.outputs)
    member = Member(examples.entries_of("layernorm", model), spec.recipe, spec.seed)
    [(_, result)] = train_sweep(model, rows, task, {"a": member}, lambda line: None)
    return spec, result, rows


@pytest.fixture
def not_ours():
    """A directory of another user's, in which we may read."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    yield directory
    os.seteuid(user)
    directory.chmod(0o700)
    directory.rmdir()


def test_jobs_that_record_the_same_run_at_once_leave_one_whole_record(trained, tmp_path):
    spec, result, rows = trained
    with ThreadPoolExecutor(8) as jobs:
        written = [
            jobs.submit(recording.write_record, tmp_path, spec, result, rows, {}) for _ in range(8)
        ]
    assert [job.result() for job in written] == [None] * 8
    assert [path.name for path in tmp_path.iterdir()] == [spec.id]
    assert records.problems_of(tmp_path, spec.id) == []


def test_a_store_that_may_not_be_written_is_named_in_a_line(trained, not_ours):
    spec, result, rows = trained
    expected = f"cannot write {not_ours}/{spec.id}: Permission denied; runs recorded so far are"
    with pytest.raises(SubtuneError, match=expected):
        recording.write_record(not_ours, spec, result, rows, {})
    assert not list(not_ours.iterdir())
