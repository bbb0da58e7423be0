"""BEFT: Bias-Efficient Fine-Tuning of Language Models in Low-Data Regimes."""
