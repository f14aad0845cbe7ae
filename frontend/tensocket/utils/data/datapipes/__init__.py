"""Chains of steps over the elements of a data set."""

from __future__ import annotations

from . import iter
from .datapipe import IterDataPipe, MapDataPipe, functional_datapipe

__all__ = ["IterDataPipe", "MapDataPipe", "functional_datapipe", "iter"]
