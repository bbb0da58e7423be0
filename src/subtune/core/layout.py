"""Where everything lies below a results directory: the one place that knows."""

from dataclasses import dataclass

# First parts of paths in the results, in their logs and in their benchmarks, and names of rules. An
# experiment of such a name has a folder and a target that begin with an underscore, as no
# experiment's name does.
RESERVED = frozenset({
    "all", "answers.csv", "answers.md", "answers.tex", "benchmarks", "changes", "checkpoints",
    "choices", "claims", "damaged", "dataset", "datasets", "figure", "fisher", "front.pdf",
    "front.png", "hub", "information", "learning_curves", "logs", "masks", "model", "models",
    "parameter_changes", "pinned.json", "progress", "ranking", "repairs", "report.html",
    "report_page", "reproduction", "runs", "runs.csv", "runs.parquet", "runs_columns.csv", "scores",
    "summary", "summary.csv", "summary.md", "summary.tex", "sweeps", "table", "test_predictions",
    "test_scores", "tokens", "train", "train_scores", "train_scores_of_sweep",
})  # fmt: skip
TABLE_ENDINGS, FIGURE_ENDINGS = ("csv", "md", "tex"), ("png", "pdf")


def folder_of(experiment: str) -> str:
    """The name of an experiment's folder in the results, which is its target's name too."""
    # Some file systems know no difference between small and capital letters.
    return f"_{experiment}" if experiment.casefold() in RESERVED else experiment


@dataclass(frozen=True)
class Layout:
    """Paths as text, so that Snakemake's wildcards can stand in them.

    ``folder`` is an experiment's, from `folder_of`; the other arguments are keys and ids of a plan.
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
        """The commits that branches and tags of the hub stand for."""
        return f"{self.results}/pinned.json"

    def fisher_entries(self, fisher: str) -> str:
        return f"{self.results}/fisher/{fisher}.safetensors"

    def fisher_sums(self, fisher: str) -> str:
        return f"{self.results}/fisher/{fisher}.csv"

    def ranking(self, ranking: str) -> str:
        return f"{self.results}/masks/{ranking}.safetensors"

    def records(self) -> str:
        """The directory of all run records."""
        return f"{self.results}/runs"

    def damaged(self) -> str:
        """The directory of records that were set aside."""
        return f"{self.results}/damaged"

    def repair(self, sweep: str) -> str:
        """The table of a sweep's runs that were set aside, to be trained again."""
        return f"{self.results}/repairs/{sweep}.csv"

    def sweep(self, sweep: str) -> str:
        """The table that says that a sweep is done."""
        return f"{self.results}/sweeps/{sweep}.csv"

    def checkpoints(self, sweep: str) -> str:
        return f"{self.results}/checkpoints/{sweep}"

    def progress(self, sweep: str) -> str:
        """What a sweep's job reports to programs: a line of JSON per event."""
        return f"{self.results}/progress/{sweep}.jsonl"

    def train_scores(self, sweep: str) -> str:
        """Scores of a sweep's runs on their training rows."""
        return f"{self.results}/train_scores/{sweep}.csv"

    def table_of_runs(self, ending: str) -> str:
        return f"{self.results}/runs.{ending}"

    def columns_of_runs(self) -> str:
        return f"{self.results}/runs_columns.csv"

    def report(self) -> str:
        return f"{self.results}/report.html"

    def log(self, *parts: str) -> str:
        return f"{self.results}/logs/{'/'.join(parts)}.log"

    def benchmark(self, *parts: str) -> str:
        """Where Snakemake writes how long a job took."""
        return f"{self.results}/benchmarks/{'/'.join(parts)}.tsv"

    def data(self, folder: str, name: str) -> str:
        """Numbers behind an experiment's tables and figures."""
        # Printed scores beside ours are for readers too, and lie beside their figure.
        inner = "" if name == "reproduction" else "data/"
        return f"{self.results}/{folder}/{inner}{name}.csv"

    def test_predictions(self, folder: str, model: str, task: str) -> str:
        return f"{self.results}/{folder}/data/test/{model}/{task}.parquet"

    def exhibit(self, folder: str, name: str, ending: str) -> str:
        """One file of a table or figure."""
        return f"{self.results}/{folder}/{name}.{ending}"

    def of_all_experiments(self, name: str, ending: str) -> str:
        """One file of a table or figure of the runs of all experiments."""
        return f"{self.results}/{name}.{ending}"

    def submission(self, folder: str, name: str) -> str:
        return f"{self.results}/{folder}/submission/{name}.zip"
