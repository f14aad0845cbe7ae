"""Devices of type ``cpu``: the functions of ``get_device_module("cpu")``, and automatic precision for them."""

from __future__ import annotations

from typing import Any

from tensocket_core import get_device_module

from . import amp as amp


def __getattr__(name: str) -> Any:
    """A function of the device module."""
    return getattr(get_device_module("cpu"), name)
