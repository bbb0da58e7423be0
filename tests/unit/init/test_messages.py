"""Lines that `subtune init` prints."""

import re
import subprocess

import pytest

from subtune.init import messages, tables

ROWS = [f"text {number},label {number}" for number in range(1, 12)]


@pytest.mark.parametrize(
    ("name", "lines", "dev"),
    [
        ("my reviews.csv", ["text,label", *ROWS], [4, 9]),
        ("reviews.tsv", ["text\tlabel", *(row.replace(",", "\t") for row in ROWS)], [4, 9]),
        ("reviews.jsonl", [f'{{"text": "{row}"}}' for row in ROWS], [5, 10]),
    ],
)
def test_the_commands_that_divide_a_file_leave_every_row_once(tmp_path, name, lines, dev):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    (commands,) = re.findall(r"fifth: (awk .*)$", messages.without_dev(path))
    subprocess.run(commands, shell=True, check=True, cwd=tmp_path)
    parts = {
        part: tables.read(f"--{part}", tmp_path / f"{path.stem}-{part}{path.suffix}").cells("text")
        for part in ("train", "dev")
    }
    assert [int(re.findall(r"\d+", text)[0]) for text in parts["dev"]] == dev
    assert len(parts["train"]) == len(ROWS) - len(dev)
    assert set(parts["train"]).isdisjoint(parts["dev"])


@pytest.mark.parametrize(
    ("at_once", "seconds", "ends"),
    [(1, [3, 1, 2], 6), (2, [3, 1, 2], 3), (2, [3, 3, 3], 6), (8, [3, 1, 2], 3)],
)
def test_jobs_that_run_at_once_end_when_the_last_one_does(at_once, seconds, ends):
    assert messages.end_of_jobs(seconds, at_once) == ends


def test_names_of_many_columns_are_cut_short():
    assert messages.listed_shortly(map(str, range(3))) == "0, 1, 2"
    assert messages.listed_shortly(map(str, range(30))).endswith("11 and 18 others")
