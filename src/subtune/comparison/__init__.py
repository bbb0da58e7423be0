"""A first configuration for a user's tables."""

from types import SimpleNamespace

from subtune.core.files import read_package_yaml

# The keys of `defaults.yaml`, where comments explain them.
DEFAULTS = SimpleNamespace(**read_package_yaml("subtune.comparison", "defaults.yaml"))
