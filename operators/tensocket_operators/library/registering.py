"""Registrations for one operator: kernels, shape functions, gradients, batching, decompositions.

Callers name an operator by its record, by the result of ``custom_op``, or as ``ns::name``. A registration is
permanent unless it belongs to a ``Library`` (``lib=``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from tensocket_core.dispatch.autocast import REGISTERED
from tensocket_core.dispatch.layers import FALLTHROUGH
from tensocket_core.dispatch.operator import Operator
from tensocket_core.transforms.batching import RULES, register_batching_rule
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError

from .libraries import (
    Library,
    Undo,
    _add_composite,
    add_decomposition,
    add_fallback,
    add_kernel,
    define_operator,
    find_operator,
    place_of,
    remove_operator,
)
from .operators import LibraryOperator, check_positional, make_rule

Function = Callable[..., Any]
#: Registered for a layer: skip to the layer below.
fallthrough_kernel: Final = FALLTHROUGH


def _keep(lib: Library | None, undo: Undo) -> None:
    if lib is not None:
        lib._undo.append(undo)


def _own(operator: Any, what: str) -> LibraryOperator:
    """Return an operator of a library.

    Raises:
        ArgumentError: The operator is built in.
    """
    found = find_operator(operator)
    if not isinstance(found, LibraryOperator):
        raise ArgumentError(what, f"the built-in operator {found.name}", "operators of libraries are completed",
                            "register a kernel for a layer with Library('aten', 'IMPL') instead")
    return found


def define(
    qualname: Any, schema: str, alias_analysis: str = "", *, lib: Library | None = None, tags: Any = ()
) -> Any:
    """Define an operator; with a library first, return a decorator for its kernel, as in PyTorch's former interface.

    Args:
        qualname: ``ns::name``; or a library, with the name in ``schema``.
        schema: ``(Tensor x, int n=1) -> Tensor``.
        lib: Library whose lifetime bounds the registration.
        alias_analysis: Belongs to the form with a library; accepted as in PyTorch.
        tags: Tags for users.

    Raises:
        ArgumentError: The name has no namespace, or the text is not a schema.
    """
    if isinstance(qualname, Library):
        owner = qualname

        def register(function: Function) -> Function:
            owner.impl(owner.define(schema, alias_analysis), function)
            return function

        return register
    if "::" not in qualname:
        raise ArgumentError("define", f"the name {qualname!r}", "the name has a namespace", "write namespace::name")
    if not schema.strip().startswith("("):
        raise ArgumentError("define", f"the schema {schema!r}", 'expected schema to look like "(Tensor x) -> Tensor"',
                            "leave the name out: it stands before")
    operator = define_operator(qualname + schema.strip(), tags)
    _keep(lib, partial(remove_operator, operator))
    return None


def add_kernels(operator: LibraryOperator, device_types: str | Iterable[str] | None, function: Function,
                lib: Library | None = None) -> None:
    """Register a function for devices, or for all (None or ``default``)."""
    names = (device_types,) if device_types is None or isinstance(device_types, str) else tuple(device_types)
    for name in names:
        if name is None or name == "default":
            _keep(lib, _add_composite(operator, False, function, True))
        else:
            _keep(lib, add_kernel(operator, place_of(name), function, override=True))


def register_kernel(op: Any, device_types: str | Iterable[str] | None, func: Function | None = None, /, *,
                    lib: Library | None = None) -> Any:
    """Register a function for devices; also a decorator.

    Args:
        op: The operator.
        device_types: Names of devices; None means all.
        func: A function of the schema's arguments.
        lib: Library whose lifetime bounds the registration.
    """
    if func is None:
        return lambda function: register_kernel(op, device_types, function, lib=lib)
    operator = find_operator(op)
    if isinstance(operator, LibraryOperator):
        add_kernels(operator, device_types, func, lib)
        return func
    for name in (device_types,) if isinstance(device_types, str) else tuple(device_types or ()):
        _keep(lib, add_kernel(operator, place_of(name), func, override=True))
    return func


def impl(qualname: Any, types: str | Iterable[str], func: Any = None, *, lib: Library | None = None) -> Any:
    """Register a function for devices (``cpu``, several, or ``default`` for all); also a decorator.

    PyTorch's former interface is ``impl(library, name, key)``, a decorator for a kernel of that library.
    """
    if isinstance(qualname, Library):
        owner, name, key = qualname, types, func or ""

        def register(function: Function) -> Function:
            owner.impl(name, function, key)
            return function

        return register
    return register_kernel(qualname, types, func, lib=lib)


def register_fake(op: Any, func: Function | None = None, /, *, lib: Library | None = None) -> Any:
    """Register the function that makes results on meta, with their shapes, strides and dtypes; also a decorator.

    Raises:
        ArgumentError: The operator is built in, or is composed of other operators.
    """
    if func is None:
        return lambda function: register_fake(op, function, lib=lib)
    operator = _own(op, "register_fake")
    if operator.body is not None:
        raise ArgumentError("register_fake", f"{operator.name}, registered for CompositeImplicitAutograd",
                            "a function over other operators has their shapes", "leave it out")
    _keep(lib, add_kernel(operator, "meta", func, override=True))
    return func


def impl_abstract(qualname: Any, func: Function | None = None, *, lib: Library | None = None) -> Any:
    """Register a fake kernel: ``register_fake`` under its former name."""
    warnings.warn("impl_abstract has become register_fake — `torch.library.impl_abstract` was renamed to "
                  "`torch.library.register_fake`", FutureWarning, stacklevel=2)
    return register_fake(qualname, func, lib=lib)


def register_autograd(op: Any, backward: Function, /, *, setup_context: Function | None = None,
                      lib: Library | None = None) -> None:
    """Register the gradient of an operator.

    Args:
        op: The operator.
        backward: ``backward(ctx, *grads)`` returns a gradient or None for each positional argument of the schema; a
            list of gradients for a list of tensors.
        setup_context: ``setup_context(ctx, inputs, output)`` saves what ``backward`` needs. If the schema has
            keyword-only arguments, ``setup_context(ctx, inputs, keyword_only_inputs, output)``.
        lib: Library whose lifetime bounds the registration.

    Raises:
        ArgumentError: The operator is built in, or writes to an argument.
        UnsupportedOperator: A tensor is passed by name only.
    """
    operator = _own(op, "register_autograd")
    check_positional("register_autograd", operator)
    if operator.mutated:
        raise ArgumentError("register_autograd", f"{operator.name}, which writes to an argument",
                            "gradients are those of operators that return new tensors", "write it out of place")
    before = operator.rule
    operator.rule = make_rule(operator, backward, setup_context)
    operator.table.clear()

    def undo() -> None:
        operator.rule = before
        operator.table.clear()

    _keep(lib, undo)


def register_autocast(op: Any, device_type: str, cast_inputs: DType, /, *, lib: Library | None = None) -> None:
    """Convert an operator's floating-point tensors to a dtype under ``autocast``.

    Args:
        op: The operator.
        device_type: The device type of the rule.
        cast_inputs: The dtype.
        lib: Library whose lifetime bounds the registration.
    """
    operator: Operator = find_operator(op)
    before = dict(REGISTERED.get(operator, {}))
    REGISTERED[operator] = {**before, device_type: cast_inputs}
    operator.table.clear()

    def undo() -> None:
        REGISTERED[operator] = before
        operator.table.clear()

    _keep(lib, undo)


def register_vmap(op: Any, func: Function | None = None, /, *, lib: Library | None = None) -> Any:
    """Register an operator's rule for ``vmap``; also a decorator. Without a rule, ``vmap`` runs example by example.

    Args:
        op: The operator.
        func: ``func(info, in_dims, *args)`` returns the results and their batch dimensions. For each argument,
            ``in_dims`` has the batch dimension or None; ``info`` has ``batch_size`` and ``randomness`` of ``vmap``.
        lib: Library whose lifetime bounds the registration.
    """
    if func is None:
        return lambda function: register_vmap(op, function, lib=lib)
    operator = find_operator(op)
    before = RULES.get(operator.name)
    register_batching_rule(operator, func)

    def undo() -> None:
        if before is None:
            RULES.pop(operator.name, None)
        else:
            RULES[operator.name] = before

    _keep(lib, undo)
    return func


def register_torch_dispatch(op: Any, torch_dispatch_class: type, func: Function | None = None, /, *,
                            lib: Library | None = None) -> Any:
    """Register a function that replaces ``__torch_dispatch__`` of a class or mode; also a decorator.

    Args:
        op: The operator.
        torch_dispatch_class: The class of tensors or modes.
        func: ``func(class_or_mode, op, types, args, kwargs)``.
        lib: Library whose lifetime bounds the registration.
    """
    if func is None:
        return lambda function: register_torch_dispatch(op, torch_dispatch_class, function, lib=lib)
    operator: Operator = find_operator(op)
    operator.dispatch_rules[torch_dispatch_class] = func
    _keep(lib, partial(operator.dispatch_rules.pop, torch_dispatch_class, None))
    return func


def register_fallback(key: str, func: Function | None = None, /, *, lib: Library | None = None) -> Any:
    """Register ``func(operator, *args)`` for all operators on a layer, or for those that a device lacks."""
    if func is None:
        return lambda function: register_fallback(key, function, lib=lib)
    _keep(lib, add_fallback(key, func))
    return func


def register_decomposition(op: Any, func: Function | None = None, /, *, lib: Library | None = None) -> Any:
    """Register a composition of other operators for devices that do not run this one; also a decorator."""
    if func is None:
        return lambda function: register_decomposition(op, function, lib=lib)
    _keep(lib, add_decomposition(find_operator(op), func))
    return func
