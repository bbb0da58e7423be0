"""A first configuration for a user's tables."""

from types import SimpleNamespace

from subtune.core.package_data import read_yaml

# The keys of `defaults.yaml`, where comments explain them.
DEFAULTS = SimpleNamespace(**read_yaml("subtune.init", "defaults.yaml"))
