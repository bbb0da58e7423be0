"""Claims of three papers about which single entries of weight matrices to train."""

from subtune.papers.paper import Paper, read_claims

PAPER = Paper(
    name="rankings",
    citation="Rankings of single entries (claims of three papers, and controls)",
    claims=read_claims(__package__),
)
