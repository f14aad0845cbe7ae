"""Classes of operators, by PyTorch's private names."""

from __future__ import annotations

from tensocket_core.dispatch.packets import AtenOverloads
from tensocket_operators.namespaces import OpOverloadPacket

#: Overloads are the records of operators and factories.
OpOverload = AtenOverloads

__all__ = ["OpOverload", "OpOverloadPacket"]
