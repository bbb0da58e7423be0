"""Test-set predictions as the GLUE server takes them: what it wants, writing and checking it."""
