"""``custom_op``: a Python function as an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tensocket_core.dispatch.protocol import tensors_in
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, TensocketError

from . import registering
from .inference import infer_schema
from .libraries import add_kernel, define_operator, remove_operator
from .operators import LibraryOperator, check_positional

Function = Callable[..., Any]


class CustomOpDef:
    """An operator that a Python function defines; call it like the function.

    Attributes:
        operator: Its record.
    """

    def __init__(self, operator: LibraryOperator, function: Function) -> None:
        self.operator = self._opoverload = operator
        self._function = function
        self.__name__ = operator.name.rpartition("::")[2]
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<CustomOpDef({self.operator.name})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator."""
        return self.operator(*args, **kwargs)

    def register_kernel(self, device_types: str | Iterable[str] | None, func: Function | None = None, /) -> Function:
        """Register the function for devices, in place of the function for all devices; also a decorator.

        Args:
            device_types: Names of devices; None means all.
            func: The function.
        """
        def register(function: Function) -> Function:
            checked = unaliased(self.operator, function)
            registering.add_kernels(self.operator, device_types, checked)
            return function

        return register if func is None else register(func)

    def register_fake(self, func: Function, /) -> Function:
        """Register the function that makes results on meta, with their shapes, strides and dtypes."""
        return registering.register_fake(self.operator, func)  # type: ignore[no-any-return]

    def register_autograd(self, backward: Function, /, *, setup_context: Function | None = None) -> None:
        """Register the gradient; see ``tensocket.library.register_autograd``."""
        registering.register_autograd(self.operator, backward, setup_context=setup_context)

    def register_autocast(self, device_type: str, cast_inputs: DType) -> None:
        """Register the dtype to which inputs are converted; see ``tensocket.library.register_autocast``."""
        registering.register_autocast(self.operator, device_type, cast_inputs)

    def register_vmap(self, func: Function | None = None, /) -> Function:
        """Register the rule for a batch; see ``tensocket.library.register_vmap``."""
        return registering.register_vmap(self.operator, func)  # type: ignore[no-any-return]

    def register_torch_dispatch(self, torch_dispatch_class: type, func: Function | None = None, /) -> Function:
        """Register the function for a class or mode; see ``tensocket.library.register_torch_dispatch``."""
        return registering.register_torch_dispatch(  # type: ignore[no-any-return]
            self.operator, torch_dispatch_class, func)


def custom_op(name: str, fn: Function | None = None, /, *, mutates_args: str | Iterable[str],
              device_types: str | Iterable[str] | None = None, schema: str | None = None, tags: Any = ()) -> Any:
    """Make an operator from a function, which layers and transforms treat as opaque; also a decorator.

    Args:
        name: ``ns::name``.
        fn: The function. It returns new tensors.
        mutates_args: Names of the arguments that the function writes to; ``"unknown"`` means all tensors.
        device_types: Devices that the function supports; None means all.
        schema: ``(Tensor x, int n) -> Tensor``; inferred from annotations if not given.
        tags: Tags for users.

    Raises:
        ArgumentError: The name has no namespace, no schema follows from the annotations, or ``mutates_args`` and the
            schema do not agree.
        UnsupportedOperator: A tensor is passed by name only.
    """
    if name.count("::") != 1:
        raise ArgumentError("custom_op", f"the name {name!r}", "the name has a namespace", "write namespace::name")

    def make(function: Function) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema.strip()
        known = name.removesuffix(".default")
        before = OPERATORS.get(known)
        if before is not None:
            remove_operator(before)
        try:
            operator = define_operator(name + text, tags, custom=True)
            try:
                _check_custom(operator, set() if mutates_args == "unknown" else set(mutates_args),
                              checked=schema is not None and mutates_args != "unknown")
            except TensocketError:
                remove_operator(operator)
                raise
        except TensocketError:
            if before is not None:
                OPERATORS[known] = before
            raise
        made = CustomOpDef(operator, function)
        made.register_kernel(device_types, function)
        return made

    return make if fn is None else make(fn)


def _check_custom(operator: LibraryOperator, mutated: set[str], *, checked: bool) -> None:
    """Check the schema of a function that becomes an operator.

    Raises:
        ArgumentError: The schema and ``mutates_args`` do not agree on the mutated arguments.
        UnsupportedOperator: A tensor is passed by name only.
    """
    check_positional("custom_op", operator)
    written = {p.name for p in operator.schema.parameters if p.mutated}
    if checked and written != mutated:
        raise ArgumentError("custom_op", f"mutates_args={mutated or '{}'} where the op mutates {written or '{}'}",
                            "mutates_args and the schema name the same arguments",
                            "pass the same names in both")


def unaliased(operator: LibraryOperator, function: Function) -> Function:
    """Return a function that checks that its results are new tensors.

    Raises:
        ArgumentError: A result shares memory with an argument.
    """
    def run(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        given = list(tensors_in((*args, *kwargs.values())))
        for tensor in tensors_in((result,)):
            if any(shares_memory(tensor, other) for other in given):
                raise ArgumentError(operator.name, "a result in the memory of an argument, which it may not alias",
                                    "results of the operator are new tensors", "clone() it")
        return result

    return run


def shares_memory(a: Any, b: Any) -> bool:
    """Whether two tensors may share elements."""
    if a is b:
        return True
    x, y = a._array, b._array
    if type(x) is np.ndarray or type(y) is np.ndarray:
        return type(x) is type(y) and bool(np.may_share_memory(x, y))
    return x.storage is y.storage


__all__ = ["CustomOpDef", "add_kernel", "custom_op", "shares_memory", "unaliased"]
