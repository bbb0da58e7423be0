"""How soon `subtune.compare` gives an answer, and how often it is true."""
