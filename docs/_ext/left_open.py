"""Write the lists of what the papers left open into their page, from each paper's choices.yaml."""

from pathlib import Path

from subtune import papers
from subtune.papers.choices import Choice

PAGE = Path(__file__).parents[1] / "papers.md"
# The lists are between these lines of the page.
BEGIN, END = "<!-- docs/_ext/left_open.py writes these lists. -->\n", "<!-- End of the lists. -->\n"


def insert_lists(page: str) -> str:
    """Replace the lists of a page by those of all papers."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{format_lists()}\n{END}{rest.partition(END)[2]}"


def format_lists() -> str:
    """Format a heading and a table for each paper."""
    lines = []
    for paper in map(papers.find_paper, papers.paper_names()):
        heading = paper.citation.partition(" (")[0].partition(":")[0]
        lines += ["", f"### {heading}", "", "| about | printed in | paper | subtune | why |"]
        lines += ["|---|---|---|---|---|"]
        lines += [format_row(name, choice) for name, choice in paper.read_choices().items()]
    return "\n".join([*lines, ""])


def format_row(name: str, choice: Choice) -> str:
    """Format a choice as a row of a table, with its settings and selections as code."""
    subtune = " ".join([choice.subtune, *(f"`{text}`" for text in choice.as_yaml())])
    cells = name, choice.printed_in, choice.paper, subtune, choice.why
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(insert_lists(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
