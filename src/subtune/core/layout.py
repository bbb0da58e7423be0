"""Paths of everything below a results directory."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Paths as text, so that they may contain Snakemake's wildcards.

    ``experiment`` is an experiment's name; the other arguments are keys and ids of a plan.
    """

    results: str

    def dataset(self, dataset: str) -> str:
        return f"{self.results}/datasets/{dataset}"

    def tokens(self, tokens: str) -> str:
        return f"{self.results}/tokens/{tokens}"

    def model(self, model: str) -> str:
        return f"{self.results}/models/{model}"

    def hub_cache(self) -> str:
        return f"{self.results}/hub"

    def pinned(self) -> str:
        """Return the file with the commits of the hub's branches and tags."""
        return f"{self.results}/pinned.json"

    def lock(self) -> str:
        """Return the file that `compare` holds locked while it runs."""
        return f"{self.results}/.lock"

    def fisher_entries(self, fisher: str) -> str:
        return f"{self.results}/fisher/{fisher}.safetensors"

    def fisher_sums(self, fisher: str) -> str:
        return f"{self.results}/fisher/{fisher}.csv"

    def ranking(self, ranking: str) -> str:
        return f"{self.results}/masks/{ranking}.safetensors"

    def searches(self, job: str) -> str:
        """Return the file with the learning rates that a job's searches found and tried."""
        return f"{self.results}/searches/{job}.json"

    def records(self) -> str:
        return f"{self.results}/runs"

    def sweep(self, sweep: str) -> str:
        return f"{self.results}/sweeps/{sweep}.csv"

    def checkpoints(self, sweep: str) -> str:
        return f"{self.results}/checkpoints/{sweep}"

    def table_of_runs(self) -> str:
        return f"{self.results}/runs.csv"

    def columns_of_runs(self) -> str:
        return f"{self.results}/runs_columns.csv"

    def report(self) -> str:
        return f"{self.results}/report.html"

    def log(self, *parts: str) -> str:
        return f"{self.results}/logs/{'/'.join(parts)}.log"

    def benchmark(self, *parts: str) -> str:
        """Return the file in which Snakemake writes how long a job took."""
        return f"{self.results}/benchmarks/{'/'.join(parts)}.tsv"

    def data(self, experiment: str, name: str) -> str:
        """Return a table of numbers of an experiment's runs, from which exhibits are made."""
        return f"{self.results}/data/{experiment}/{name}.parquet"

    def test_predictions(self, experiment: str, model: str) -> str:
        return f"{self.results}/data/{experiment}/test/{model}.parquet"

    def exhibits(self, experiment: str) -> str:
        """Return the folder of an experiment's tables and figures."""
        return f"{self.results}/experiments/{experiment}"

    def submission(self, experiment: str) -> str:
        """Return the folder of an experiment's zip files for the GLUE server."""
        return f"{self.results}/submission/{experiment}"

    def summary(self, name: str, ending: str) -> str:
        """Return a table or figure of all experiments together."""
        return f"{self.results}/{name}.{ending}"
