"""Downloads from the hub, and the commits that its branches and tags stand for."""
