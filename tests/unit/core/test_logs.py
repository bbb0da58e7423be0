"""Messages of jobs that fail."""

import errno

from subtune.core.jobs import message_of


def test_of_a_full_disk_the_file_that_was_written_is_named():
    full = OSError(errno.ENOSPC, "No space left on device", "here/weights", None, "results/weights")
    assert message_of(full) == "the disk is full (results/weights): free some space"
    full = OSError(errno.ENOSPC, "No space left on device", "results/scores.csv")
    assert message_of(full) == "the disk is full (results/scores.csv): free some space"


def test_of_an_error_that_no_one_can_mend_nothing_is_said():
    assert message_of(KeyError("x")) is None
