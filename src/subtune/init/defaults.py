"""Defaults of first configurations: the keys of `defaults.yaml`, where comments explain them."""

from types import SimpleNamespace

from subtune.core import resources

DEFAULTS = SimpleNamespace(**resources.read_yaml("subtune.init", "defaults.yaml"))
