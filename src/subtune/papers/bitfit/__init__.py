"""BitFit: Simple Parameter-efficient Fine-tuning for Transformer-based Masked Language-models."""
