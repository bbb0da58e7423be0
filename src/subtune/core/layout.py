"""Paths of everything below a results directory."""

from dataclasses import dataclass

TABLE_ENDINGS, FIGURE_ENDINGS = ("csv", "md", "tex"), ("png", "pdf")


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

    def spec(self, kind: str, name: str) -> str:
        """Return the file with the spec of a stage whose id is a name."""
        return f"{self.results}/plans/{kind}/{name}.json"

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

    def table_of_runs(self, ending: str) -> str:
        return f"{self.results}/runs.{ending}"

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
        # Readers open the printed scores, so their table is in their figure's directory.
        inner = "" if name == "reproduction" else "data/"
        return f"{self.results}/experiments/{experiment}/{inner}{name}.csv"

    def test_predictions(self, experiment: str, model: str) -> str:
        return f"{self.results}/experiments/{experiment}/data/test/{model}.parquet"

    def exhibit(self, experiment: str, name: str, ending: str) -> str:
        return f"{self.results}/experiments/{experiment}/{name}.{ending}"

    def summary(self, name: str, ending: str) -> str:
        return f"{self.results}/{name}.{ending}"

    def submission(self, experiment: str, name: str) -> str:
        return f"{self.results}/experiments/{experiment}/submission/{name}.zip"
