"""The Python interface. `subtune` itself has its names."""
