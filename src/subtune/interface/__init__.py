"""The Python interface. Its names are also those of `subtune`."""
