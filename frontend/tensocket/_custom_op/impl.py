"""Operators of the old interface, and their registered functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final

from tensocket_operators.library import Library, LibraryOperator, infer_schema
from tensocket_operators.library.libraries import add_kernel
from tensocket_operators.namespaces import ops
from tensocket_plugins.contract.errors import ArgumentError

from .autograd import autograd_kernel
from .checks import (
    RESERVED_NS,
    SUPPORTED_DEVICE_TYPE_TO_KEY,
    check_differentiability,
    check_differentiable,
    parse_functional,
    parse_qualname,
    validate_device_type,
    validate_function_matches_schema,
    validate_namespace,
)

Function = Callable[..., Any]
#: Operators of this interface by ``ns::name``.
global_registry: Final[dict[str, CustomOp]] = {}


class CustomOp:
    """An operator of the old interface; ``custom_op`` makes it.

    Attributes:
        operator: Its record.
        qualname: ``ns::name``.
        impls: Registered functions by name: ``cpu``, ``cuda``, ``abstract``, ``factory``, ``backward``,
            ``save_for_backward``.
        differentiable: For each result, whether it has a gradient; None means all tensors.

    Raises:
        ArgumentError: Something other than ``custom_op`` makes it.
    """

    def __init__(self, library: Any, qualname: Any = None, *ignored: Any, _private_access: bool = False) -> None:
        if not _private_access:
            raise ArgumentError("CustomOp", "a call", "The CustomOp constructor is private",
                                "use custom_op(...) to create one")
        self.qualname: str = qualname
        self.name = qualname.partition("::")[2]
        self.operator: LibraryOperator = get_op(qualname)
        self.impls: dict[str, Function] = {}
        self.differentiable: list[bool] | None = None
        self._library: Library = library
        self._recorded = False
        global_registry[qualname] = self

    def __repr__(self) -> str:
        return f'<CustomOp(op="{self.qualname}")>'

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator."""
        return self.operator(*args, **kwargs)

    def _register(self, kind: str, function: Function) -> None:
        if kind in self.impls:
            raise ArgumentError("custom_op", f"a second {kind} impl for operator {self.qualname}",
                                f"it already has a {kind} impl", "remove one of both")
        self.impls[kind] = function

    def impl(self, device_types: str | Iterable[str]) -> Callable[[Function], Function]:
        """Return a decorator for the kernel of devices.

        Raises:
            ArgumentError: A device is unknown, or already has a kernel.
        """
        names = {device_types} if isinstance(device_types, str) else set(device_types)
        for name in names:
            validate_device_type(name)

        def register(function: Function) -> Function:
            for name in sorted(names):
                taken = self.operator.body is not None or self.operator.explicit is not None
                if name not in self.impls and (taken or name in self.operator.overrides):
                    raise ArgumentError("impl", f"{self.qualname} for {name}", "the operator already has an "
                                        "implementation for this device type via torch.library", "remove one of both")
                self._register(name, function)
                self._library.impl(self.name, function, SUPPORTED_DEVICE_TYPE_TO_KEY[name])
            return function

        return register

    def impl_factory(self) -> Callable[[Function], Function]:
        """Return a decorator for the kernel of calls without tensors."""
        def register(function: Function) -> Function:
            self._register("factory", function)
            self._library._undo.append(add_kernel(self.operator, "cpu", function))
            return function

        return register

    def impl_abstract(self) -> Callable[[Function], Function]:
        """Return a decorator for the shape function.

        Raises:
            ArgumentError: It exists already, or the operator is a composite.
        """
        def register(function: Function) -> Function:
            if self.operator.body is not None:
                raise ArgumentError("impl_abstract", f"{self.qualname}, registered for CompositeImplicitAutograd",
                                    "such operators do not need one", "leave it out")
            if "abstract" not in self.impls and "meta" in self.operator.overrides:
                raise ArgumentError("impl_abstract", f"{self.qualname}", "the operator already has a "
                                    "DispatchKey::Meta implementation", "remove one of both")
            self._register("abstract", function)
            self._library.impl(self.name, function, "Meta")
            return function

        return register

    def _half(self, kind: str, function: Function) -> None:
        """Register one of the two functions of a gradient."""
        check_differentiable(self.operator.schema)
        if not self._recorded:
            if self.operator.body is not None:
                raise ArgumentError("impl_backward", f"{self.qualname}, registered for CompositeImplicitAutograd",
                                    "such operators do not need an autograd formula", "leave it out")
            for place in self.operator.overrides:
                layer, _, device = place.partition(":")
                if layer == "Autograd":
                    key = f"Autograd{device.upper()}"
                    raise ArgumentError("impl_backward", f"{self.qualname}", "it already has an Autograd kernel "
                                        f"registered to DispatchKey::{key}", "remove one of both")
            self._library.impl(self.name, autograd_kernel(self), "Autograd")
            self._recorded = True
        self._register(kind, function)

    def impl_save_for_backward(self) -> Callable[[Function], Function]:
        """Return a decorator for ``save(inputs, output)``, whose result is an argument of ``backward``."""
        def register(function: Function) -> Function:
            self._half("save_for_backward", function)
            return function

        return register

    def impl_backward(self, output_differentiability: Any = None) -> Callable[[Function], Function]:
        """Return a decorator for ``backward(ctx, saved, *grads)``, which returns a dict of gradients by argument.

        Args:
            output_differentiability: For each result, whether it has a gradient.

        Raises:
            ArgumentError: The operator has no gradients by this interface, or the list does not match its results.
        """
        check_differentiability(self.operator.schema, output_differentiability)

        def register(function: Function) -> Function:
            self._half("backward", function)
            self.differentiable = output_differentiability
            return function

        return register

    def _destroy(self) -> None:
        """Delete the operator and its registered functions."""
        self._library._destroy()
        global_registry.pop(self.qualname, None)




def define(qualname: str, schema: str) -> CustomOp:
    """Return a new operator with a functional schema ``(Tensor x) -> Tensor``.

    Raises:
        ArgumentError: The name or schema is not allowed, or the operator exists.
    """
    ns, name = parse_qualname(qualname)
    validate_namespace(ns)
    parse_functional(name, schema)
    if qualname in global_registry:
        raise ArgumentError("custom_op", f"{qualname}", "an operator is not defined multiple times",
                            "choose another name")
    library = Library(ns, "FRAGMENT")
    library.define(name + schema)
    op = CustomOp(library, qualname, _private_access=True)
    library.impl(name, autograd_kernel(op), "Autograd")
    op._recorded = True
    return op


def custom_op(qualname: str, manual_schema: str | None = None) -> Callable[[Function], CustomOp]:
    """Return a decorator that defines an operator by the name and parameters of a function, which is never called.

    Raises:
        ArgumentError: The name, the function or the schema is not allowed.
    """
    def make(function: Function) -> CustomOp:
        ns, name = parse_qualname(qualname)
        validate_namespace(ns)
        if function.__name__ != name:
            raise ArgumentError("custom_op", f"{function.__name__} for {qualname!r}",
                                f"expected `func` to have name '{name}'", "rename one of both")
        text = infer_schema(function) if manual_schema is None else manual_schema.strip()
        schema = parse_functional(name, text)
        if manual_schema is not None:
            validate_function_matches_schema(schema, function)
        op = define(qualname, text)
        functools.update_wrapper(op, function, updated=())
        return op

    return make


def get_op(qualname: str) -> Any:
    """Return the record of an operator.

    Raises:
        ArgumentError: It does not exist.
    """
    ns, name = parse_qualname(qualname)
    found = getattr(getattr(getattr(ops, ns), name, None), "default", None)
    if found is None:
        raise ArgumentError("get_op", f"{qualname}", "Could not find the operator", "register it first")
    return found


def find_custom_op(qualname: str, also_check_torch_library: bool = False) -> CustomOp:
    """Return an operator of this interface, or a wrapper for one of ``torch.library``.

    Raises:
        ArgumentError: It does not exist.
    """
    if qualname in global_registry:
        return global_registry[qualname]
    if not also_check_torch_library:
        raise ArgumentError("custom_op", f"{qualname!r}", "Could not find custom op", "register it first")
    get_op(qualname)
    return CustomOp(Library(qualname.partition("::")[0], "FRAGMENT"), qualname, _private_access=True)


_find_custom_op = find_custom_op
__all__ = ["RESERVED_NS", "SUPPORTED_DEVICE_TYPE_TO_KEY", "CustomOp", "custom_op", "define", "find_custom_op", "get_op",
           "global_registry", "infer_schema", "validate_namespace"]
