"""Tensors without memory that pretend to be on a device: ``FakeTensorMode``."""

from __future__ import annotations

from . import fake_tensor as fake_tensor
from .fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)

__all__ = ["DataDependentOutputException", "FakeTensor", "FakeTensorMode",
           "UnsupportedFakeTensorException"]
