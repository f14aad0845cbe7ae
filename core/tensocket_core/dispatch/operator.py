"""Operators and their dispatch: a dict from key to closure, filled by ``resolve`` on a miss.

An operator is a record: schema, documentation, derivative, and a ``build`` that makes the closure for a key without
autograd. ``resolve`` peels the key in priority order: autograd first, then the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import UnsupportedDtype, UnsupportedOperator

from ..autograd.node import Derivative
from ..autograd.record import recorder
from ..device import DeviceEntry, entry_of_key
from .fallback import with_fallback
from .keys import AUTOGRAD
from .registry import OPERATORS
from .schema import Schema, parse_schema


class Operator:
    """One operator: its record and its dispatch table.

    Attributes:
        schema: Signature.
        table: Key to closure, called with all arguments by position.
        derivative: How gradients flow; None where the operator is declared not differentiable.
        doc: Documentation: first line, then details with formula.
        method: Whether tensors have it as a method; a string names the method differently.
        function: Whether the namespace has it as a function.
        namespace: Where the function lives: ``torch`` or ``nn.functional``.
        aliases: Further names.
        dunder: Python operator methods it implements: ``__add__``.
        inplace: Whether there is an in-place method with a trailing underscore.
    """

    kind = "operator"

    def __init__(self, schema: str, doc: str, *, derivative: Derivative | None = None, method: bool | str = True,
                 function: bool = True, namespace: str = "torch", aliases: tuple[str, ...] = (),
                 dunder: tuple[str, ...] = (), inplace: bool = False) -> None:
        self.schema: Schema = parse_schema(schema)
        self.name = self.schema.name
        self.doc = doc
        self.table: dict[int, Callable[..., Any]] = {}
        self.derivative = derivative
        self.method = method
        self.function = function
        self.namespace = namespace
        self.aliases = aliases
        self.dunder = dunder
        self.inplace = inplace
        if derivative is not None:
            derivative.bind(self.schema)
        if self.name in OPERATORS:
            raise ValueError(f"operator {self.name!r} is defined twice")
        OPERATORS[self.name] = self

    def __repr__(self) -> str:
        return f"<operator {self.schema.text}>"

    def resolve(self, key: int) -> Callable[..., Any]:
        """Make, store and return the closure for a key."""
        closure = self._closure(key)
        self.table[key] = closure
        return closure

    def _closure(self, key: int) -> Callable[..., Any]:
        if key & AUTOGRAD:
            below_key = key & ~AUTOGRAD
            below = self.table.get(below_key) or self.resolve(below_key)
            return below if self.derivative is None else recorder(self.derivative, below)
        return self.resolve_device(key)

    def resolve_device(self, key: int) -> Callable[..., Any]:
        """The closure for a key without autograd."""
        return with_fallback(self, self.build(key, entry_of_key(self.name, key)))

    def build(self, key: int, entry: DeviceEntry) -> Callable[..., Any]:
        """The closure for a key without autograd, on one device."""
        raise NotImplementedError

    def how(self, entry: DeviceEntry, dtype: DType) -> str:
        """How this operator runs on a device: ``direct``, ``registered``, ``generated``, ``composite`` or ``view``."""
        kernels = entry.runtime.kernels
        if kernels.find(self.name, dtype.name, direct=True):
            return "direct"
        if kernels.find(self.name, dtype.name, direct=False):
            return "registered"
        return "generated" if entry.runtime.target is not None else "composite"


def check_dtype(operator: str, entry: DeviceEntry, dtype: DType) -> None:
    """Refuse dtypes that the device's profile does not list.

    Raises:
        UnsupportedDtype: The device does not support the dtype.
    """
    if dtype.name not in entry.runtime.profile.dtypes:
        raise UnsupportedDtype(operator, f"{dtype.name} on {entry.device}", "the device does not support this dtype",
                               "convert with .to(dtype), or use another device")


def missing_primitive(operator: str, entry: DeviceEntry, dtype: DType, primitive: str) -> UnsupportedOperator:
    """The error for an operator that a device cannot run."""
    return UnsupportedOperator(
        operator, f"{dtype.name} on {entry.device}", f"the backend registers no kernel for the primitive {primitive!r}",
        "use another device, or allow copies to the host with tensocket.set_fallback('cpu')")

