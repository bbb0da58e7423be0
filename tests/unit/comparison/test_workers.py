"""The processes that do the jobs of a comparison."""

import signal
import time

from subtune.comparison.workers import Workers


def test_a_worker_that_still_imports_ends_when_it_is_asked_and_leaves_no_files(
    tmp_path, monkeypatch
):
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setenv("TMPDIR", str(private))
    with (tmp_path / "lock").open("w") as lock:
        workers = Workers(tmp_path, lock.fileno())
        [process] = workers._idle
        until = time.monotonic() + 60
        while not [*private.iterdir()]:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.01)
        workers.close()
    # A worker that does not end in time is killed.
    assert process.returncode == -signal.SIGTERM
    assert not [*private.iterdir()]
