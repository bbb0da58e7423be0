"""SPAFIT: layers in three strata: frozen, biases, and LoRA with biases."""
