"""Tables that people might have: GLUE's real rows as CSV, and zips that its server takes."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from subtune.data.corpora import read_glue_rows
from subtune.exhibits.glue_server import FILES
from subtune.tasks import TASKS


def write(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> Path:
    """A CSV file with some columns of some rows."""
    pd.DataFrame(rows, columns=[*columns]).to_csv(path, index=False)
    return path


def glue_rows(glue_dir: Path, task: str, split: str) -> list[dict[str, str]]:
    """Real rows of one of GLUE's tasks, with the columns that they have on the hub."""
    path = glue_dir / TASKS[task].title / f"{split.replace('validation', 'dev')}.tsv"
    return [row for _, row in read_glue_rows(TASKS[task], path, labelled=True)]


def glue_csv(
    glue_dir: Path, task: str, directory: Path, rows: int | None = None
) -> tuple[Path, Path]:
    """The training and dev files of one of GLUE's tasks, with its texts and labels alone.

    Args:
        rows: of each file, the first so many.
    """
    columns = (*TASKS[task].text, "label")
    names = {"train": f"{task}-train.csv", "validation": f"{task}-dev.csv"}
    train, dev = (
        write(directory / name, columns, glue_rows(glue_dir, task, split)[:rows])
        for split, name in names.items()
    )
    return train, dev


def require_taken(path: Path) -> None:
    """Fail unless a zip has the server's files, each with a prediction for every row."""
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == sorted(FILES)
        for name, file in FILES.items():
            table = pd.read_csv(archive.open(name), sep="\t", dtype={"prediction": str})
            assert list(table) == ["index", "prediction"]
            assert len(table) == file.rows and table["index"].tolist() == [*range(file.rows)]
            if file.labels:
                assert set(table["prediction"]) <= set(file.labels)
            else:
                assert table["prediction"].astype(float).between(0, 5).all()
