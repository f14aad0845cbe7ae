"""Tensors without memory that say which device they would be on: ``FakeTensorMode``."""

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
