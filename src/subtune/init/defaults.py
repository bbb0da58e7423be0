"""Defaults of first configurations: the keys of `defaults.yaml`, where comments explain them."""

from types import SimpleNamespace

from subtune.core.layout import read_yaml

DEFAULTS = SimpleNamespace(**read_yaml("subtune.init", "defaults.yaml"))
