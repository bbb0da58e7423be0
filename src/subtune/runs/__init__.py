"""Run records: training, reading, lists and exports."""
