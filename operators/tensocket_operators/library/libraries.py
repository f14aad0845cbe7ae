"""``Library``: operators and kernels that live as long as an object."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tensocket_core.dispatch.fallback import DECOMPOSITIONS, FALLBACKS
from tensocket_core.dispatch.layers import FALLTHROUGH
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS, clear_tables
from tensocket_core.dispatch.schema import check_types, parse_schema
from tensocket_core.recording import OVERRIDDEN_KERNELS
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from ..kinds.composite import Composite
from ..namespaces import BUILT_IN, OpOverloadPacket, built_in
from .operators import LibraryOperator, fake_kernel

_DEVICE: Final = re.compile(r"[a-z][a-z0-9_]{1,31}")
_LAYERS: Final = ("Python", "Autocast", "Autograd")
_IMPLICIT: Final = frozenset({"", "CompositeImplicitAutograd"})
_EXPLICIT: Final = frozenset({"CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"})
#: Namespaces that a library of kind DEF has taken.
_DEFINED: Final[set[str]] = set()
Undo = Callable[[], Any]


def place_of(key: str) -> str:
    """Return a kernel's key in ``overrides`` from PyTorch's key: ``CPU``, ``Meta``, ``AutogradCPU``.

    Raises:
        ArgumentError: The key is neither a layer, a device nor both.
    """
    for layer in _LAYERS:
        if key.startswith(layer):
            device = key.removeprefix(layer).lower()
            if not device:
                return layer
            if _DEVICE.fullmatch(device):
                return f"{layer}:{device}"
    if _DEVICE.fullmatch(key.lower()) and not key.startswith("Composite"):
        return key.lower()
    raise ArgumentError("library", f"dispatch key {key!r}", "a key is a device, a layer (Autograd), both (AutogradCPU) "
                        "or Composite{Implicit,Explicit}Autograd", "pass one of these")


def find_operator(name: Any) -> Any:
    """Return a record, given the record itself, ``ns::name`` or a built-in name.

    Raises:
        ArgumentError: The operator does not exist.
    """
    name = name.record if isinstance(name, OpOverloadPacket) else getattr(name, "_opoverload", name)
    if isinstance(name, Operator):
        return name
    space, _, rest = str(name).rpartition("::")
    found = built_in(rest.split(".")[0]) if space in ("", BUILT_IN) else (
        OPERATORS.get(str(name)) or OPERATORS.get(str(name).removesuffix(".default")))
    if not isinstance(found, Operator):
        raise ArgumentError("library", f"operator {name!r}", "the operator is defined first",
                            "define it, or check the name")
    return found


# ----------------------------------------------------------------------------------------------------- registrations


def add_kernel(operator: Operator, place: str, function: Callable[..., Any], *, override: bool = False) -> Undo:
    """Register a kernel and return the function that removes it.

    Raises:
        ArgumentError: The operator has a kernel, and ``override`` is False.
    """
    kernel = function
    if place == "meta":
        kernel = fake_kernel(operator.name, function)
    if isinstance(operator, LibraryOperator) and function is not FALLTHROUGH:
        kernel = operator.positional(kernel)
    elif function is not FALLTHROUGH:
        kernel = _as_closure(operator, kernel)
    before = operator.overrides.get(place)
    if before is not None and not override:
        raise ArgumentError("impl", f"a second kernel of {operator.name} for {place}", "there is one for each key",
                            "pass allow_override=True, or remove the first one")
    operator.overrides[place] = kernel
    replaced = None if isinstance(operator, LibraryOperator) else _Replacement()
    operator.table.clear()

    def undo() -> None:
        _restore(operator.overrides, place, kernel, before, operator.table)
        if replaced is not None:
            replaced.end()

    return undo


class _Replacement:
    """An entry of ``OVERRIDDEN_KERNELS``, until ``end``."""

    def __init__(self) -> None:
        OVERRIDDEN_KERNELS.append(self)

    def end(self) -> None:
        """Remove the entry; a second call does nothing."""
        if self in OVERRIDDEN_KERNELS:
            OVERRIDDEN_KERNELS.remove(self)


def _as_closure(operator: Operator, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel of a built-in operator as a closure; only composites take keyword arguments."""
    names = [p.name for p in operator.schema.parameters if p.keyword_only]
    if isinstance(operator, Composite) or not names:
        return function
    count = len(operator.schema.names) - len(names)
    return lambda *args: function(*args[:count], **dict(zip(names, args[count:], strict=True)))


def _restore(table: dict[str, Any], key: str, own: Any, before: Any, closures: dict[int, Any] | None = None) -> None:
    """Restore the previous value of a key, unless another registration replaced it since."""
    if table.get(key) is own:
        if before is None:
            del table[key]
        else:
            table[key] = before
    if closures is not None:
        closures.clear()


def add_fallback(key: str, function: Callable[..., Any]) -> Undo:
    """Register a boxed fallback ``function(operator, *args)`` for a layer, or for operators that a device lacks."""
    place = place_of(key)
    before = FALLBACKS.get(place)
    FALLBACKS[place] = function
    replaced = _Replacement()
    clear_tables()

    def undo() -> None:
        _restore(FALLBACKS, place, function, before)
        replaced.end()
        clear_tables()

    return undo


def add_decomposition(operator: Operator, function: Callable[..., Any]) -> Undo:
    """Register the decomposition for devices that do not run an operator."""
    own = isinstance(operator, LibraryOperator)
    closure = operator.positional(function) if own else _as_closure(operator, function)
    before = DECOMPOSITIONS.get(operator.name)
    DECOMPOSITIONS[operator.name] = closure
    operator.table.clear()
    return partial(_restore, DECOMPOSITIONS, operator.name, closure, before, operator.table)


def decompositions() -> dict[Operator, Callable[..., Any]]:
    """Return all decompositions: the function of every composite, and the registered ones."""
    table: dict[Operator, Callable[..., Any]] = {
        item: item.body for item in (*COMPOSITES.values(), *OPERATORS.values()) if item.body is not None}
    return {**table, **{find_operator(name): function for name, function in DECOMPOSITIONS.items()}}


def define_operator(schema: str, tags: Any = (), *, custom: bool = False) -> LibraryOperator:
    """Return a new operator; the name in its schema has a namespace.

    Raises:
        ArgumentError: The text is not a schema.
    """
    if "(" not in schema:
        raise ArgumentError("define", f"the schema {schema!r}", "a schema looks like f(Tensor x) -> Tensor",
                            "add arguments and results")
    name, _, overload = schema[:schema.index("(")].strip().partition(".")
    text = name + ("" if overload in ("", "default") else f".{overload}") + schema[schema.index("("):]
    try:
        check_types(parse_schema(text))
    except ValueError as error:
        raise ArgumentError("define", f"{error}", "schemas have PyTorch's form and types", "correct it") from None
    return LibraryOperator(text, f"Operator {name} of a library.", custom=custom,
                           tags=list(tags) if isinstance(tags, (tuple, list)) else [tags])


def remove_operator(operator: Operator) -> None:
    """Remove an operator."""
    OPERATORS.pop(operator.name, None)
    operator.table.clear()
    DECOMPOSITIONS.pop(operator.name, None)


class Library:
    """Operators and kernels of a namespace, which live as long as the object.

    Args:
        ns: The namespace; ``aten`` is that of built-in operators, for which only kernels can be registered.
        kind: ``DEF``: the library owns the namespace. ``FRAGMENT``: it extends the namespace. ``IMPL``: it
            only registers kernels.
        dispatch_key: The default key of ``impl``.

    Raises:
        ArgumentError: The kind is unknown, or the namespace has an owner, or is that of built-in operators.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ArgumentError("Library", f"kind {kind!r}", "Unsupported kind: it is 'DEF', 'FRAGMENT' or "
                                "'IMPL'", "pass one of these")
        if kind != "IMPL" and ns == "prim":
            raise ArgumentError("Library", f"kind {kind!r} for namespace {ns!r}", "it is a reserved namespace, for "
                                "which kernels can be registered only", "choose another name")
        if kind == "DEF" and (ns in _DEFINED or ns == BUILT_IN):
            raise ArgumentError("Library", f"a second owner of namespace {ns!r}", "a namespace has one owner",
                                "use kind 'FRAGMENT'")
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key
        self._undo: list[Undo] = []
        if kind == "DEF":
            _DEFINED.add(ns)
            self._undo.append(partial(_DEFINED.discard, ns))
        self._finalizer = weakref.finalize(self, _undo_all, self._undo)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator by its schema, without namespace: ``f(Tensor x, int n=1) -> Tensor``.

        Returns:
            The operator's name.

        Raises:
            ArgumentError: The library only registers kernels, the operator exists, or the text is not a schema.
        """
        if self.kind == "IMPL" or self.ns == BUILT_IN:
            raise ArgumentError("define", f"a definition in {self!r}",
                                "a library of kind DEF or FRAGMENT defines operators of its own namespace",
                                "create one of that kind")
        name = schema.partition("(")[0].strip()
        if "::" in name:
            raise ArgumentError("define", f"the name {name!r}", "the library adds the namespace", "leave it out")
        if f"{self.ns}::{name.removesuffix('.default')}" in OPERATORS:
            raise ArgumentError("define", f"{self.ns}::{name}, which exists", "an operator is defined once",
                                "choose another name")
        operator = define_operator(f"{self.ns}::{schema.strip()}", tags)
        self._undo.append(partial(remove_operator, operator))
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False,
             allow_override: bool = False) -> None:
        """Register a kernel.

        Args:
            op_name: Name in this namespace, or the record.
            fn: A function of the schema's arguments; ``fallthrough_kernel`` skips a layer.
            dispatch_key: A device (``CPU``, ``Meta``, any name), a layer (``Autograd``), both (``AutogradCPU``),
                ``CompositeImplicitAutograd`` (the default) or ``CompositeExplicitAutograd``.
            with_keyset: Not available: this runtime passes no set of keys to kernels.
            allow_override: Whether the kernel may replace a registered one.

        Raises:
            ArgumentError: The operator or the key does not exist, the library has another key, or a kernel exists.
            ArgumentTypeError: ``fn`` is not a function.
        """
        if not callable(fn):
            raise ArgumentTypeError("impl", f"a {type(fn).__name__}", "Input function is required to be a callable",
                                    "pass a function")
        if with_keyset:
            raise ArgumentError("impl", "with_keyset=True", "kernels are not given keys",
                                "use tensocket.dispatch.exclude_keys around the call below")
        is_known = isinstance(op_name, (Operator, OpOverloadPacket))
        operator = find_operator(op_name if is_known else self._full(str(op_name)))
        key = self._key("impl", dispatch_key)
        if key in _IMPLICIT or key in _EXPLICIT:
            self._undo.append(_add_composite(operator, key in _IMPLICIT, fn, allow_override))
            return
        self._undo.append(add_kernel(operator, place_of(key), fn, override=allow_override))

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Register ``fn(operator, *args)`` for a layer, or for all operators that a device lacks.

        Raises:
            ArgumentError: No key is given, the key does not exist, or the library has another one.
        """
        self._undo.append(add_fallback(self._key("fallback", dispatch_key), fn))

    def _key(self, operator: str, given: str) -> str:
        """Return the key of a registration: the given one, else the library's own."""
        if given and self.dispatch_key and given != self.dispatch_key:
            raise ArgumentError(operator, f"dispatch key {given} in {self!r}", "it is inconsistent with the dispatch "
                                "key of the library, which is for that one only", "make a library for this key")
        return given or self.dispatch_key

    def _full(self, name: str) -> str:
        return name if "::" in name else f"{self.ns}::{name}"

    def _register_fake(self, op_name: str, fn: Callable[..., Any]) -> None:
        self._undo.append(add_kernel(find_operator(self._full(op_name)), "meta", fn, override=True))

    def _destroy(self) -> None:
        """Undo all registrations at once."""
        _undo_all(self._undo)


def _undo_all(undo: list[Undo]) -> None:
    while undo:
        undo.pop()()


def _add_composite(operator: Operator, implicit: bool, function: Callable[..., Any], override: bool) -> Undo:
    """Add a kernel for all devices: composed of operators and transparent to all layers, or opaque to them."""
    if not isinstance(operator, LibraryOperator):
        raise ArgumentError("impl", f"a kernel of {operator.name} for all devices",
                            "built-in operators run on all devices already", "pass a device or a layer")
    slot = "body" if implicit else "explicit"
    if (operator.body or operator.explicit) is not None and not override:
        raise ArgumentError("impl", f"a second kernel of {operator.name} for all devices", "there is one",
                            "pass allow_override=True, or remove the first one")
    before = operator.body, operator.explicit
    operator.body = operator.explicit = None
    setattr(operator, slot, operator.positional(function))
    operator.table.clear()

    def undo() -> None:
        operator.body, operator.explicit = before
        operator.table.clear()

    return undo
