"""Annotations of functions that PyTorch scripts; functions run as Python here, which ignores them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  what programs import

from tensocket._jit_internal import BroadcastingList1, BroadcastingList2, BroadcastingList3, Future

__all__ = ["Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "Future", "List", "Optional",
           "Tuple", "Union"]
