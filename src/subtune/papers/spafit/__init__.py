"""SPAFIT: layers in three strata: frozen, with their biases, and with LoRA beside biases."""
