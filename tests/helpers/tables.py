"""Write real GLUE rows as the CSV files of a user, and check zip files for the GLUE server."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from subtune.data.corpora import read_glue_rows
from subtune.exhibits.glue_server import SUBMISSION_FILES
from subtune.tasks import TASKS


def write(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> Path:
    """Write a CSV file with these columns of the rows."""
    pd.DataFrame(rows, columns=[*columns]).to_csv(path, index=False)
    return path


def glue_rows(glue_dir: Path, task: str, split: str) -> list[dict[str, str]]:
    """Read the rows of a GLUE task, with their column names on the hub."""
    path = glue_dir / TASKS[task].title / f"{split.replace('validation', 'dev')}.tsv"
    return [row for _, row in read_glue_rows(TASKS[task], path, labelled=True)]


def glue_csv(
    glue_dir: Path, task: str, directory: Path, rows: int | None = None
) -> tuple[Path, Path]:
    """Write the training and dev sets of a GLUE task as CSV files of texts and labels.

    Args:
        rows: write only this number of first rows; None means all.
    """
    columns = (*TASKS[task].text, "label")
    names = {"train": f"{task}-train.csv", "validation": f"{task}-dev.csv"}
    train, dev = (
        write(directory / name, columns, glue_rows(glue_dir, task, split)[:rows])
        for split, name in names.items()
    )
    return train, dev


def require_taken(path: Path) -> None:
    """Check that a zip contains all files of the GLUE server, with a prediction for every row."""
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == sorted(SUBMISSION_FILES)
        for name, file in SUBMISSION_FILES.items():
            table = pd.read_csv(archive.open(name), sep="\t", dtype={"prediction": str})
            assert list(table) == ["index", "prediction"]
            assert len(table) == file.rows and table["index"].tolist() == [*range(file.rows)]
            if file.labels:
                assert set(table["prediction"]) <= set(file.labels)
            else:
                assert table["prediction"].astype(float).between(0, 5).all()
