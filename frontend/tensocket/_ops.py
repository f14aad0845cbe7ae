"""Classes of operators, by PyTorch's private names."""

from __future__ import annotations

from tensocket_core.dispatch.operator import Operator

#: An operator has one overload here, so that its record is both.
OpOverload = OpOverloadPacket = Operator

__all__ = ["OpOverload", "OpOverloadPacket"]
