"""LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning."""
