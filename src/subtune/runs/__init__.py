"""Run records: how they are made, read, listed and exported."""
