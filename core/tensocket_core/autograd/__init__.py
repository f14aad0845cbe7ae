"""Reverse-mode automatic differentiation."""

from __future__ import annotations

from . import attributes as _attributes  # noqa: F401  gives tensors their attributes
from . import graph
from . import graph_methods as _graph_methods  # noqa: F401  gives tensors their methods
from . import recorders as _recorders  # noqa: F401  registers with dispatch how calls are recorded
from .anomaly import detect_anomaly, set_detect_anomaly
from .differentiate import backward, grad

__all__ = ["backward", "detect_anomaly", "grad", "graph", "set_detect_anomaly"]
