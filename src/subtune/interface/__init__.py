"""The Python interface, whose names can be imported from `subtune`."""
