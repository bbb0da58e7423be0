"""List what each paper left open in Markdown tables, from its choices.yaml."""

from subtune import papers
from subtune.papers.choices import Choice
from subtune.papers.paper import Paper


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
