"""A first configuration, by what is in someone's tables."""
