"""Custom autograd functions, whose ``backward`` users write.

``Function.apply`` runs ``forward`` without recording and gives its results one node, whose gradient is ``backward``.
Transforms take part through ``INTERCEPTORS``: while one of them runs, it adds a callable that takes
``(function class, arguments)`` and returns the results, or ``NotImplemented`` for calls that do not concern it. The
callable finds ``forward``, ``setup_context``, ``backward``, ``jvp``, ``vmap`` and ``generate_vmap_rule`` on the class;
``make_context`` returns a context, and ``ctx.saved_for_forward`` holds the arguments of ``save_for_forward``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, NoReturn, TypeVar

from tensocket_core.dispatch.modes import STATE, no_grad
from tensocket_core.keys import AUTOGRAD
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError, UnsupportedOperator

from .delayed import guarded
from .function_node import FunctionNode, record_function

F = TypeVar("F", bound=Callable[..., Any])

#: The callables by which running transforms handle a call, the innermost last.
INTERCEPTORS: Final[list[Callable[[type[Function], tuple[Any, ...]], Any]]] = []


class FunctionCtx:
    """Context that ``forward`` passes to ``backward``; it takes any attribute.

    Attributes:
        needs_input_grad: For each argument of ``apply``, whether its gradient is wanted.
        saved_for_forward: The tensors passed to ``save_for_forward``, for ``jvp``.
        materialize_grads: Whether ``backward`` gets zeros instead of None for undefined gradients.
        _materialize_non_diff_grads: The same for results that are marked as non-differentiable.
    """

    needs_input_grad: tuple[bool, ...] = ()
    saved_for_forward: tuple[Any, ...] = ()
    materialize_grads: bool = True
    _materialize_non_diff_grads: bool = True
    _to_save: tuple[Any, ...] = ()
    _dirty: tuple[Any, ...] = ()
    _non_differentiable: tuple[Any, ...] = ()
    #: Indices of the results that are marked as non-differentiable, once the call is recorded.
    _fixed: frozenset[int] = frozenset()
    #: Whether ``jvp`` runs, so that ``saved_tensors`` returns the tensors saved for it.
    _pushes: bool = False
    _node: Callable[[], FunctionNode | None] | None = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors, or None, for ``saved_tensors``, which detects later in-place changes.

        Raises:
            ArgumentTypeError: A value is not a tensor.
        """
        self._to_save = _checked("save_for_backward", tensors)

    def save_for_forward(self, *tensors: Any) -> None:
        """Save tensors, or None, for ``jvp``.

        Raises:
            ArgumentTypeError: A value is not a tensor.
        """
        self.saved_for_forward = _checked("save_for_forward", tensors)

    def mark_dirty(self, *tensors: Any) -> None:
        """Mark arguments that ``forward`` modifies in place; ``forward`` must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Mark results that have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether ``backward`` gets zeros (the default) or None for undefined gradients."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors passed to ``save_for_backward``; in ``jvp``, those passed to ``save_for_forward``.

        Raises:
            AutogradError: An earlier backward freed the values, or an operator modified them in place since.
        """
        if self._pushes:
            return self.saved_for_forward
        node = None if self._node is None else self._node()
        return self._to_save if node is None else node.unpack(STATE.grad_enabled)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The former name of ``saved_tensors``; it warns."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors


def _checked(operator: str, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    for index, value in enumerate(tensors):
        if value is not None and not hasattr(value, "_key"):
            raise ArgumentTypeError(operator, f"argument {index} of type {type(value).__name__}",
                                    "only tensors and None are saved", "keep other values as attributes of ctx")
    return tensors


class _NodeClass:
    """Descriptor of the class of a ``Function``'s nodes, which it makes at the first use."""

    __slots__ = ()

    def __get__(self, instance: object, owner: type[Function]) -> type[FunctionNode]:
        return node_class(owner)  # type: ignore[no-any-return]


class Function:
    """Base class of custom autograd functions.

    A subclass defines static methods: ``forward(ctx, *args)``, or ``forward(*args)`` with
    ``setup_context(ctx, inputs, output)``; ``backward(ctx, *grads)`` (also called ``vjp``), which returns one gradient
    or None for each argument; for transforms ``jvp(ctx, *tangents)`` and ``vmap(info, in_dims, *args)``, or
    ``generate_vmap_rule = True`` if ``forward`` and ``backward`` are composed of operators.

    >>> import tensocket_core as torch
    >>> class Twice(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    """

    generate_vmap_rule: bool = False
    _backward_cls: Any = _NodeClass()

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the function itself; subclasses define it.

        Raises:
            UnsupportedOperator: The subclass does not define it.
        """
        _undefined("Function.forward", "forward")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Fill ``ctx`` for ``backward`` after a ``forward`` that does not take ``ctx``; optional.

        Raises:
            UnsupportedOperator: The subclass does not define it.
        """
        _undefined("Function.setup_context", "setup_context")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return gradients of the arguments from those of the results; differentiable subclasses define it.

        Raises:
            UnsupportedOperator: The subclass does not define it.
        """
        _undefined("Function.backward", "backward or vjp")

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return tangents of the results from those of the arguments, for forward mode.

        Raises:
            UnsupportedOperator: The subclass does not define it.
        """
        _undefined("Function.jvp", "jvp")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Run the function over a batch; return the results and their batch dimensions.

        Raises:
            UnsupportedOperator: The subclass does not define it.
        """
        _undefined("Function.vmap", "vmap, or generate_vmap_rule = True,")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse the call: functions are called by ``apply``, without an instance.

        Raises:
            AutogradError: Always.
        """
        raise AutogradError(type(self).__name__, "a call of an instance", "functions have static methods",
                            "call apply on the class")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run the function and record it.

        Args:
            args: Arguments of ``forward``; ``apply`` orders keywords by its signature.
            kwargs: Arguments by name.

        Returns:
            The results of ``forward``. An argument that ``forward`` returns unchanged becomes a view of itself.

        Raises:
            AutogradError: A tensor marked as modified is not returned, or is a leaf that requires grad.
        """
        separate = has_setup(cls)
        if kwargs or separate:
            args = _bound(cls, separate, args, kwargs)
        for interceptor in reversed(INTERCEPTORS):
            result = interceptor(cls, args)
            if result is not NotImplemented:
                return result
        return call_with_context(cls, args)[0]

    @classmethod
    def _rule(cls) -> Callable[..., Any]:
        """Return ``backward`` or ``vjp``, whichever the subclass defines."""
        own, alias = cls.backward is not Function.backward, cls.vjp is not Function.backward
        if own and alias:
            raise AutogradError(cls.__name__, "both backward and vjp", "they are two names of one method",
                                "define one of them")
        return cls.vjp if alias else cls.backward


def _undefined(operator: str, what: str) -> NoReturn:
    raise UnsupportedOperator(operator, "a Function without it", f"this use of a Function needs {what}",
                              "define it as a static method")


def has_setup(function: type[Function]) -> bool:
    """Whether ``forward`` takes no context, because ``setup_context`` is defined."""
    return function.setup_context is not Function.setup_context


def make_context(function: type[Function], args: tuple[Any, ...]) -> Any:
    """Return a context for a call; its class is named after the function, as in PyTorch."""
    ctx = _own(function, "_context_class", _context_class)()
    ctx.needs_input_grad = tuple([bool(getattr(a, "_key", 0) & AUTOGRAD) for a in args])
    return ctx


def _own(function: type[Function], name: str, make: Callable[[type[Function]], Any]) -> Any:
    """Return an object that is made once per function class and stored on it."""
    value = vars(function).get(name)
    if value is None:
        value = make(function)
        setattr(function, name, value)
    return value


def call_with_context(function: type[Function], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """Run and record a function; return its result and the context of the call."""
    ctx = make_context(function, args)
    edges = tuple([(a._grad_fn or a) if getattr(a, "_key", 0) & AUTOGRAD else None for a in args])
    recording = STATE.grad_enabled and STATE.inference is None and any(edge is not None for edge in edges)
    with no_grad():
        if has_setup(function):
            output = function.forward(*args)
            function.setup_context(ctx, args, output)
        else:
            output = function.forward(ctx, *args)
        several = isinstance(output, tuple)
        outputs = record_function(function, ctx, args, edges, output if several else (output,), recording)
    return outputs if several else outputs[0], ctx


def node_class(function: type[Function]) -> Any:
    """Return the class of the nodes of a function's calls: ``MyFunctionBackward``."""
    return _own(function, "_node_class", _node_class)


def _node_class(function: type[Function]) -> Any:
    return type(f"{function.__name__}Backward", (FunctionNode,),
                {"__slots__": (), "__module__": function.__module__, "function": function})


def _context_class(function: type[Function]) -> Any:
    return type(f"{function.__name__}Backward", (FunctionCtx,), {"_forward_cls": function})


def _signature(function: type[Function]) -> inspect.Signature:
    return inspect.signature(function.forward)


def _bound(function: type[Function], separate: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return all arguments of ``forward`` by position, with defaults."""
    lead = () if separate else (None,)
    bound = _own(function, "_signature", _signature).bind(*lead, *args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        names = ", ".join(bound.kwargs)
        raise ArgumentTypeError(function.__name__, f"keyword-only arguments {names}",
                                "arguments of forward have a position", "declare them before the star")
    return tuple(bound.args[len(lead):])


def once_differentiable(function: F) -> F:
    """Mark a ``backward`` that is not composed of recorded operators: its results cannot be differentiated again."""

    @wraps(function)
    def backward(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            results = function(ctx, *grads)
        if not STATE.grad_enabled or not any(getattr(g, "_key", 0) & AUTOGRAD for g in grads):
            return results
        if isinstance(results, tuple):
            return guarded(results)
        return guarded((results,))[0]

    return backward  # type: ignore[return-value]
