"""List what each paper left open in Markdown tables, from its choices.yaml."""

from sphinx.application import Sphinx

from subtune import papers
from subtune.papers.choices import Choice
from subtune.papers.paper import Paper

# The tables are appended to this page.
PAGE = "left-open"


def tables() -> str:
    """Format a heading and a table for each paper."""
    return "\n".join(section(papers.find_paper(name)) for name in papers.paper_names())


def section(paper: Paper) -> str:
    """Format a heading, and a table with a row per choice."""
    heading = paper.citation.partition(" (")[0].partition(":")[0]
    lines = [f"## {heading}", "", "| about | printed in | paper | subtune | why |"]
    lines += ["|---|---|---|---|---|"]
    lines += [row(name, choice) for name, choice in paper.read_choices().items()]
    return "\n".join([*lines, ""])


def row(name: str, choice: Choice) -> str:
    """Format a choice as a row, with its settings and selections as code."""
    subtune = " ".join([choice.subtune, *(f"`{text}`" for text in choice.as_yaml())])
    cells = name, choice.printed_in, choice.paper, subtune, choice.why
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def append(app: Sphinx, page: str, source: list[str]) -> None:
    """Append the tables to their page."""
    if page == PAGE:
        for name in papers.paper_names():
            folder = papers.find_paper(name).folder.parent
            app.env.note_dependency(str(folder / "choices.yaml"))
        source[0] += "\n" + tables()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", append)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
