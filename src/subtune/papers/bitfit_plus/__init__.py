"""BitFit+: a replication of BitFit, with ablations of biases and LayerNorm weights."""
