"""Which operators run how on a device."""

from __future__ import annotations

from typing import Any

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType

from ..device import open_entry
from .registry import OPERATORS


def registrations(device: Any, dtype: DType = dtypes.float32) -> dict[str, str]:
    """How each operator runs on a device: ``direct``, ``registered``, ``generated``, ``composite`` or ``view``."""
    entry = open_entry(device)
    return {name: operator.how(entry, dtype) for name, operator in sorted(OPERATORS.items())}
