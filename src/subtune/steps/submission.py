"""The step `submission`: write zip files for the GLUE server."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each experiment with a test set that the GLUE server scores."""
    from subtune.exhibits.glue_server import SUBMISSION, list_submissions

    layout = context.layout
    for name, experiment in context.config.experiments.items():
        if zips := list_submissions(context.config, experiment):
            predicted = {model: layout.test_predictions(name, model) for model in experiment.models}
            described = [
                {"name": zip, "predicted": predicted[model], "model": model, "method": method}
                for zip, (model, method) in zips.items()
            ]
            inputs = {"chosen": layout.data(name, "chosen"), "predicted": [*predicted.values()]}
            outputs = {"folder": layout.submission(name)}
            spec = {"zips": described, "caption": [SUBMISSION.title, SUBMISSION.caption]}
            yield Job("submission", name, spec, inputs, outputs, {})


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write the zip files, and a table of their contents."""
    import pandas as pd

    from subtune.analysis.chosen_runs import best_of_seeds
    from subtune.analysis.tables import read_table
    from subtune.exhibits import glue_server
    from subtune.exhibits.glue_server import SUBMISSION
    from subtune.steps.exhibits import write_exhibits

    folder, parts = Path(outputs["folder"]), []
    folder.mkdir()
    best = best_of_seeds(read_table(job.inputs["chosen"]))
    predicted = {path: pd.read_parquet(path) for path in job.inputs["predicted"]}
    for zip in job.spec["zips"]:
        runs = best[(best["model"] == zip["model"]) & (best["method"] == zip["method"])]
        predictions, part = glue_server.make_submission(predicted[zip["predicted"]], runs)
        path = folder / f"{zip['name']}.zip"
        path.parent.mkdir(exist_ok=True)
        glue_server.write_zip(path, predictions)
        part.insert(0, "submission", f"{zip['name']}.zip")
        parts.append(part)
    contents = {"submission": pd.concat(parts, ignore_index=True)}
    write_exhibits([(SUBMISSION, contents)], folder)
