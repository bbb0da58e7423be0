"""What methods train, and how much. In: the experiment's models. Out: csv, md, tex."""

from subtune.logs import job

with job(snakemake.log[0]):
    from pathlib import Path

    from subtune.models import shapes
    from subtune.parameter_counts import parameter_counts
    from subtune.selections import SELECTION
    from subtune.tables import spafit, writing

    models = {
        name: shapes.shapes_of(shapes.local_config(Path(directory)), snakemake.params.labels)
        for name, directory in zip(snakemake.params.models, snakemake.input, strict=True)
    }
    methods = {
        name: SELECTION.validate_json(selection)
        for name, selection in snakemake.params.methods.items()
    }
    table = spafit.table1(
        parameter_counts(models, methods),
        {name: selection.in_words() for name, selection in methods.items()},
    )
    writing.write(table, snakemake.output)
