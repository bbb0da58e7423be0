"""A check of zip files as the GLUE server does it."""

import zipfile
from pathlib import Path

from subtune.glue_server import FILES


def require_taken(path: Path) -> None:
    """Fail unless a zip has the server's files, each with a prediction for every row."""
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == sorted(FILES)
        for name, file in FILES.items():
            header, *lines = archive.read(name).decode().removesuffix("\n").split("\n")
            assert header == "index\tprediction"
            numbers, predictions = zip(*(line.split("\t") for line in lines), strict=True)
            assert numbers == tuple(map(str, range(file.rows)))
            if file.labels:
                assert set(predictions) <= set(file.labels)
            else:
                low, high = file.task.score_range
                assert all(low <= float(prediction) <= high for prediction in predictions)
