"""The tables of the benchmark, which are made from GLUE, UD English EWT and Debian's package index.

A table has a training set, a test set that says which methods are truly within the margin, and
usually a dev set. Without a dev set, methods are compared by cross-validation. Rows are drawn with
a fixed seed, so the same sources give the same tables.
"""

import csv
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

SECTIONS = ("games", "python", "science", "doc", "net")
LANGUAGES = 5
# Facets of Debian's package tags that are labels of their own.
TAGS = ("interface::x11", "implemented-in::c", "interface::commandline", "uitoolkit::gtk")


class Source(NamedTuple):
    """The directories of GLUE and of UD English EWT, in their official layouts."""

    glue: Path
    ewt: Path


class Table(NamedTuple):
    """How a table is made: its numbers of rows, the rows themselves, and options of `compare`.

    Attributes:
        train: the number of rows of the training set.
        dev: the number of rows of the dev set, or 0 for cross-validation.
        rows: returns all rows that may be drawn.
        options: options of `subtune.compare`.
    """

    train: int
    dev: int
    rows: Callable[[Source], pd.DataFrame]
    options: Mapping[str, Any]


MOST_TEST_ROWS = 2000


def _read_glue(
    task: str, columns: Mapping[str, Any], split: str = "train"
) -> Callable[[Source], pd.DataFrame]:
    def read(source: Source) -> pd.DataFrame:
        header = None if task == "CoLA" else 0
        path = source.glue / task / f"{split}.tsv"
        table = pd.read_csv(
            path, sep="\t", header=header, quoting=csv.QUOTE_NONE, keep_default_na=False
        )
        return table[[*columns.values()]].set_axis([*columns], axis=1)

    return read


def _read_packages() -> pd.DataFrame:
    """Read the name, one-line description, section, tags and maintainer of Debian's packages."""
    text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True).stdout
    fields = ("Package", "Maintainer", "Section", "Tag", "Description")
    rows = []
    for stanza in text.split("\n\n"):
        lines = stanza.replace("\n ", " ").splitlines()
        found = dict(line.split(": ", 1) for line in lines if ": " in line)
        # The description in English has its own field on some systems.
        found.setdefault("Description", found.get("Description-en", ""))
        rows.append([found.get(field) for field in fields])
    table = pd.DataFrame(rows, columns=[field.lower() for field in fields])
    table = table[table["description"] != ""].dropna(subset="section")
    table["section"] = table["section"].str.rpartition("/")[2]
    return table.drop_duplicates("description").sort_values("package", ignore_index=True)


def _read_sections(sections: int | Sequence[str], group: bool = False) -> Callable:
    """Read descriptions with their sections: the given or the most frequent ones."""

    def read(source: Source) -> pd.DataFrame:
        table = _read_packages()
        chosen = sections
        if isinstance(sections, int):
            chosen = [*table["section"].value_counts().index[:sections]]
        table = table[table["section"].isin(chosen)]
        columns = ["description", "section", *(["maintainer"] if group else [])]
        # Few maintainers look after most packages of a section.
        if group:
            frequent = table["maintainer"].value_counts()
            table = table[table["maintainer"].isin(frequent[frequent.between(5, 40)].index)]
        return table[columns]

    return read


def _read_tags(source: Source) -> pd.DataFrame:
    table = _read_packages().dropna(subset=["tag"])
    found = {
        tag.rpartition("::")[2]: table["tag"].map(lambda tags, tag=tag: int(tag in tags))
        for tag in TAGS
    }
    return table[["description"]].assign(**found)


def _read_sentences(source: Source) -> Iterator[tuple[str, str, str]]:
    """Yield the genre, the document and the text of each sentence."""
    for path in sorted(source.ewt.glob("*.conllu")):
        document = ""
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("# newdoc id = "):
                document = line.removeprefix("# newdoc id = ")
            elif line.startswith("# text = "):
                yield document.partition("-")[0], document, line.removeprefix("# text = ")


def _read_languages(source: Source) -> pd.DataFrame:
    """Read descriptions with the only programming language in which a package is implemented."""
    table = _read_packages().dropna(subset=["tag"])
    found = table["tag"].str.findall(r"implemented-in::([\w+-]+)")
    table = table.assign(language=found.str[0])[found.str.len() == 1]
    frequent = table["language"].value_counts().index[:LANGUAGES]
    return table.loc[table["language"].isin(frequent), ["description", "language"]]


def _read_tenses(source: Source) -> pd.DataFrame:
    """Read sentences with the tense of the word on which all others depend."""
    rows = []
    for path in sorted(source.ewt.glob("*.conllu")):
        for sentence in path.read_text("utf-8").split("\n\n"):
            lines = sentence.splitlines()
            text = next((n.removeprefix("# text = ") for n in lines if n.startswith("# text")), "")
            words = [line.split("\t") for line in lines if not line.startswith("#")]
            features = next((word[5] for word in words if word[7] == "root"), "")
            tense = re.search("Tense=(Past|Pres)", features)
            if tense and 5 <= len(text.split()) <= 25:
                rows.append((text, tense[1]))
    return pd.DataFrame(rows, columns=["text", "tense"]).drop_duplicates("text")


def _read_genres(source: Source) -> pd.DataFrame:
    rows = [row for row in _read_sentences(source) if 5 <= len(row[2].split()) <= 25]
    return pd.DataFrame(rows, columns=["genre", "document", "text"]).drop_duplicates("text")


def _read_swapped_words(source: Source) -> pd.DataFrame:
    """Swap two neighbouring words in half of the sentences. The label tells whether it was done."""
    generator, rows = random.Random(0), []
    texts = dict.fromkeys(text for _, _, text in _read_sentences(source))
    for text in texts:
        words = text.split()
        if 6 <= len(words) <= 16:
            is_swapped = generator.random() < 0.5
            place = generator.randrange(1, len(words) - 2)
            if is_swapped:
                words[place : place + 2] = words[place + 1], words[place]
            rows.append((" ".join(words), "swapped" if is_swapped else "as written"))
    return pd.DataFrame(rows, columns=["text", "order"])


def _shuffle_labels(read: Callable[[Source], pd.DataFrame], label: str) -> Callable:
    def read_shuffled(source: Source) -> pd.DataFrame:
        table = read(source)
        return table.assign(**{label: table[label].sample(frac=1, random_state=0).to_numpy()})

    return read_shuffled


_sst2 = _read_glue("SST-2", {"sentence": "sentence", "label": "label"})
_pair = {"text": "text", "text2": "text2"}
TABLES: dict[str, Table] = {
    "sst2": Table(600, 200, _sst2, {}),
    "sst2-folds": Table(400, 0, _sst2, {}),
    "random": Table(300, 200, _shuffle_labels(_sst2, "label"), {}),
    "cola": Table(1000, 400, _read_glue("CoLA", {"sentence": 3, "acceptable": 1}), {}),
    "mrpc": Table(
        300,
        200,
        _read_glue("MRPC", {"text": "#1 String", "text2": "#2 String", "label": "Quality"}),
        _pair,
    ),
    "stsb": Table(
        600,
        200,
        _read_glue("STS-B", {"text": "sentence1", "text2": "sentence2", "score": "score"}),
        _pair,
    ),
    "rte": Table(
        300,
        150,
        _read_glue("RTE", {"text": "sentence1", "text2": "sentence2", "label": "label"}),
        _pair,
    ),
    "packages-5": Table(400, 0, _read_sections(SECTIONS), {}),
    "packages-20": Table(600, 300, _read_sections(20), {}),
    "tags": Table(
        350,
        200,
        _read_tags,
        {"label": ",".join(tag.rpartition("::")[2] for tag in TAGS)},
    ),
    "maintainers": Table(
        400,
        0,
        _read_sections(SECTIONS, group=True),
        {"text": "description", "label": "section", "group": "maintainer"},
    ),
    "genres": Table(500, 0, _read_genres, {"text": "text", "label": "genre", "group": "document"}),
    "swapped": Table(1000, 300, _read_swapped_words, {"text": "text", "label": "order"}),
}


# Tables of other sources or labels, on which no choice of the policy is based.
UNSEEN: dict[str, Table] = {
    "qnli": Table(
        400,
        200,
        _read_glue("QNLI", {"text": "question", "text2": "sentence", "label": "label"}, "dev"),
        _pair,
    ),
    "tense": Table(600, 200, _read_tenses, {"text": "text", "label": "tense"}),
    "languages": Table(400, 0, _read_languages, {"text": "description", "label": "language"}),
}


def write_table(table: Table, source: Source, folder: Path) -> dict[str, Path]:
    """Draw the rows of a table, and write its splits to CSV files, unless they exist.

    The rows of a group are in one split only.
    """
    splits = ["train", *(["dev"] if table.dev else []), "test"]
    paths = {split: folder / f"{split}.csv" for split in splits}
    if all(path.exists() for path in paths.values()):
        return paths
    rows = table.rows(source).sample(frac=1, random_state=0, ignore_index=True)
    sizes = {"test": min(MOST_TEST_ROWS, len(rows) - table.train - table.dev)}
    sizes |= {"dev": table.dev} if table.dev else {}
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in sizes.items():
        drawn = _draw(rows, size, table.options.get("group"))
        rows.loc[drawn].to_csv(paths[split], index=False)
        rows = rows.drop(drawn)
    rows.head(table.train).to_csv(paths["train"], index=False)
    return paths


def _draw(rows: pd.DataFrame, size: int, group: str | None) -> Iterable[int]:
    """Return the indices of ``size`` rows or, with groups, of about as many rows in groups."""
    if group is None:
        return rows.index[:size]
    counts = Counter(rows[group])
    chosen, total = set[str](), 0
    for name in rows[group].unique():
        if total >= min(size, len(rows) // 3):
            break
        chosen.add(name)
        total += counts[name]
    return rows.index[rows[group].isin(chosen)]
