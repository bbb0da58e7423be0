"""BitFit+: a replication of BitFit, and which of the biases and LayerNorm weights matter."""
