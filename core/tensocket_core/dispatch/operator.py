"""Operators and their dispatch: a dict from key to closure, filled by ``resolve`` on a miss.

An operator is a record: schema, documentation, derivative, and a ``build`` that makes the closure for a key with only a
device, dtypes and kinds of numbers. ``resolve`` peels the key in the order of ``layers.LAYERS``: subclasses and
transforms, autocast, autograd, conjugation; the rest is the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, UnsupportedDtype, UnsupportedOperator

from ..device import BY_KEY, DeviceState, state_of_key
from ..keys import AUTOGRAD, DEVICE_MASK, DTYPE_MASK, DTYPE_OF
from . import layers, protocol
from .call import key_of
from .derivative import Derivative
from .fallback import with_alternatives
from .modes import ACTIVE, run_with_modes
from .packets import AtenOverloads, OperatorName
from .registry import OPERATORS
from .schema import Schema, bound, parse_schema

#: ``host_path(key, state, next_path) -> closure or None``: a fast path for keys of one host-resident device.
HostPath = Callable[[int, DeviceState, Callable[..., Any]], Callable[..., Any] | None]


class Operator(AtenOverloads):
    """One operator: its record and its dispatch table.

    Attributes:
        schema: Signature.
        table: Key to closure, called with all arguments by position.
        overrides: Functions registered from outside, by the name of a layer or a device, or for a layer on one device
            (``Autograd:cpu``); see ``layers``.
        dispatch_rules: Functions registered for calls with a class or mode, in place of its ``__torch_dispatch__``.
        makes_views: Whether results may be views of an argument, or the argument itself.
        derivative: The gradients; None if the operator is declared not differentiable.
        doc: Documentation: first line, then details with formula.
        method: Whether tensors have it as a method; a string is the method's name.
        function: Whether the namespace has it as a function.
        public_namespace: The function's namespace: ``torch`` or ``nn.functional``.
        aliases: Further names.
        dunder: Python operator methods it implements: ``__add__``.
        inplace: Whether there is an in-place method with a trailing underscore.
        hands_by_name: Whether handlers receive arguments with a default by name, as from PyTorch's functions in Python.
    """

    kind = "operator"
    #: Name of the parameter that collects positional arguments, if the operator is a composite that has one.
    variadic = ""
    #: The function of a composite.
    body: Callable[..., Any] | None = None
    #: Makes a composite's fast path, which may hold the closure of another operator.
    host_path: HostPath | None = None
    #: The generated public function.
    public: Callable[..., Any] | None = None

    def __init__(self, schema: str, doc: str, *, derivative: Derivative | None = None, method: bool | str = True,
                 function: bool = True, namespace: str = "torch", aliases: tuple[str, ...] = (),
                 dunder: tuple[str, ...] = (), inplace: bool = False, hands_by_name: bool = False) -> None:
        self.schema: Schema = parse_schema(schema)
        self.name = OperatorName(self.schema.name)
        self.doc = doc
        self.table: dict[int, Callable[..., Any]] = {}
        self.overrides: dict[str, Callable[..., Any]] = {}
        self.dispatch_rules: dict[type, Callable[..., Any]] = {}
        self.derivative = derivative
        self.makes_views = "~" in self.schema.returns
        self.method = method
        self.function = function
        self.public_namespace = namespace
        self.aliases = aliases
        self.dunder = dunder
        self.inplace = inplace
        self.hands_by_name = hands_by_name
        if derivative is not None:
            derivative.bind(self.schema)
        self._register()

    def _register(self) -> None:
        name = self.schema.name
        if name in OPERATORS:
            raise ValueError(f"operator {name!r} is defined twice")
        OPERATORS[name] = self

    # ------------------------------------------------------------------------------------------ resolution

    def resolve(self, key: int) -> Callable[..., Any]:
        """Make, store and return the closure for a key."""
        closure = self.table[key] = self._closure(key)
        return closure

    def below(self, key: int) -> Callable[..., Any]:
        """Return the closure for a key without the bit that a layer removed."""
        return self.table.get(key) or self.resolve(key)

    def _closure(self, key: int) -> Callable[..., Any]:
        layer, device = layers.highest(key), self._device_name(key)
        if layer is None:
            override = self.overrides.get(device)
            return override if override and override is not layers.FALLTHROUGH else self.resolve_device(key)
        override = self.overrides.get(f"{layer.name}:{device}") or self.overrides.get(layer.name)
        override = override or layers.fallback_for(self, layer.name)
        if override is layers.FALLTHROUGH:
            return self.below(key & ~layer.bit)
        return override or layer.build(self, key)

    def _device_name(self, key: int) -> str:
        state = BY_KEY.get(key & DEVICE_MASK)
        return "" if state is None else str(state.device.type)

    def recorded(self, key: int) -> Callable[..., Any]:
        """Return the closure for a key with ``AUTOGRAD``; without a derivative, nothing is recorded."""
        return self.recording(self.below(key & ~AUTOGRAD), key)

    @property
    def is_recorded(self) -> bool:
        """Whether calls with tensors that require a gradient are recorded."""
        return self.derivative is not None

    def recording(self, below: Callable[..., Any], key: int) -> Callable[..., Any]:
        """Return ``below``, a closure that runs this operator for a key, with recording."""
        return layers.record(self.derivative, below, key)

    def resolve_device(self, key: int) -> Callable[..., Any]:
        """Return the closure for a key without layers.

        Raises:
            ArgumentError: A list of tensors is empty.
        """
        if not key & DEVICE_MASK and any(p.type == "Tensor[]" for p in self.schema.parameters):
            raise ArgumentError(self.name, "no tensors", "there is at least one", "pass some")
        state = state_of_key(self.name, key)
        return with_alternatives(self, state.device.type, lambda: self.build(key, state))

    def build(self, key: int, state: DeviceState) -> Callable[..., Any]:
        """Build the closure for a key without layers, on one device."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ calling

    def invoke(self, kernel: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a closure of this operator with all arguments in schema order."""
        return kernel(*args)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the operator through its record, as dispatch modes do; keywords beyond the schema go to the function."""
        if keywords and self.public is not None and not keywords.keys() <= set(self.schema.names):
            return self.public(*args, **keywords)
        given = bound(self.schema, args, keywords)
        key = key_of(self, given)
        return run_with_modes(self, key, given) if ACTIVE else self.invoke(self.below(key), given)

    def gathered(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments of a closure's call in schema order: the inverse of ``invoke``."""
        return (*args, *[keywords[name] for name in self.schema.names[len(args):]])

    def run_function_mode(self, args: tuple[Any, ...]) -> Any:
        """Hand a call to the innermost function mode."""
        return protocol.run_function_mode(self, args)

    def rungs(self, key: int, state: DeviceState) -> list[tuple[str, Callable[..., Any]]]:
        """Return names and closures of the paths for a key without layers, fastest first."""
        return [(self.how(state, DTYPE_OF[1 << (key & DTYPE_MASK).bit_length() - 1]), self.build(key, state))]

    # ------------------------------------------------------------------------------------------ listing

    def path(self, key: int) -> str:
        """Return the steps of a call with this key, such as ``autograd > cpu plan``."""
        steps = []
        while (layer := layers.highest(key)) is not None:
            steps.append(layer.name.lower() + (" (override)" if layer.name in self.overrides else ""))
            key &= ~layer.bit
        state, dtypes = BY_KEY.get(key & DEVICE_MASK), key & DTYPE_MASK
        if state is not None and dtypes:
            how = self.how(state, DTYPE_OF[1 << dtypes.bit_length() - 1])
            steps.append(f"{state.device} {'override' if state.device.type in self.overrides else how}")
        return " > ".join(steps)

    def how(self, state: DeviceState, dtype: DType) -> str:
        """Return the fastest path on a device, ``registered``, ``generated``, ``composite`` or ``view``."""
        kernels = state.runtime.kernels
        if kernels.find(self.name, dtype.name, direct=True):
            return "host kernel"
        if kernels.find(self.name, dtype.name, direct=False):
            return "registered"
        return "generated" if state.runtime.target is not None else "composite"


def check_dtype(operator: str, state: DeviceState, dtype: DType) -> None:
    """Raise for dtypes that the device's profile does not list.

    Raises:
        UnsupportedDtype: The device does not support the dtype.
    """
    if dtype.name not in state.runtime.profile.dtypes:
        raise UnsupportedDtype(operator, f"{dtype.name} on {state.device}", "the device does not support this dtype",
                               "convert with .to(dtype), or use another device")


def missing_primitive(operator: str, state: DeviceState, dtype: DType, primitive: str) -> UnsupportedOperator:
    """Return the error for an operator that a device cannot run."""
    return UnsupportedOperator(
        operator, f"{dtype.name} on {state.device}", f"the backend registers no kernel for the primitive {primitive!r}",
        "use another device, or allow copies to the host with tensocket.set_fallback('cpu')")
