"""Operators that are added from outside: records without a formula, which run registered kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_core.device import BY_KEY, default_state
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.fallback import with_alternatives
from tensocket_core.dispatch.modes import no_grad
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.protocol import user_arguments
from tensocket_core.dispatch.schema import bound
from tensocket_core.dispatch.versions import bump
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, SCALAR
from tensocket_core.pytree import tree_flatten, tree_unflatten
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError, MissingDataError, UnsupportedOperator

from ..differentiation.function import Function, make_context
from ..differentiation.function_node import record_function

#: A placeholder for the derivative; the rule is a function with a context.
_RULE: Final = Derivative(lambda grad: grad)


class LibraryOperator(Operator):
    """The record of an operator of a library.

    Attributes:
        explicit: The kernel for devices without one of their own.
        body: A function composed of other operators, which all layers see instead of this operator.
        rule: The gradient: a ``Function`` with ``setup_context`` and ``backward``; None without one.
        tags: Tags for users.
        custom: Whether the kernels are arbitrary Python code: they may write to arguments other than by operators,
            and do not run on meta.
    """

    kind = "library"

    def __init__(self, schema: str, doc: str = "", *, tags: Sequence[Any] = (), custom: bool = False) -> None:
        super().__init__(schema, doc, method=False, function=False)
        self.explicit: Callable[..., Any] | None = None
        self.body: Callable[..., Any] | None = None
        self.rule: type[Function] | None = None
        self.tags = list(tags)
        self.custom = custom
        self.derivative = _RULE
        self._listed = frozenset(k for k, p in enumerate(self.schema.parameters) if p.type.endswith("[]"))
        self.mutated = tuple(k for k, p in enumerate(self.schema.parameters) if p.mutated)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the operator; the arguments follow the schema.

        Raises:
            ArgumentTypeError: An argument that the schema declares as a tensor is not a tensor.
        """
        given = bound(self.schema, args, keywords)
        if self._listed:
            given = tuple(_as_list(value) if k in self._listed else value for k, value in enumerate(given))
        for parameter, value in zip(self.schema.parameters, given, strict=True):
            if parameter.type == "Tensor" and type(value) in SCALAR:
                raise ArgumentTypeError(self.name, f"{parameter.name} of type {type(value).__name__}",
                                        f"the schema is {self.schema.text}", "pass a tensor")
        return call(self, *given)

    def positional(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a kernel as a closure, which takes all arguments by position."""
        names, count = self.schema.names, sum(not p.keyword_only for p in self.schema.parameters)
        mutated = self.mutated if self.custom else ()
        if count == len(names) and not mutated:
            return function

        def run(*args: Any) -> Any:
            result = function(*args[:count], **dict(zip(names[count:], args[count:], strict=True)))
            for k in mutated:
                count_change(args[k])
            return result

        return run

    # ------------------------------------------------------------------------------------------ resolution

    def recorded(self, key: int) -> Callable[..., Any]:
        """Return the closure of the composed function, whose operators are recorded; otherwise, that of the kernels."""
        if self.body is not None:
            return self.below(key & ~AUTOGRAD)
        return super().recorded(key)

    def recording(self, below: Callable[..., Any], key: int) -> Callable[..., Any]:
        """Return ``below`` with one node that runs the registered backward."""
        rule = self.rule or _without_rule(self)

        def record(*args: Any) -> Any:
            for k in self.mutated:
                check_unrecorded(self, self.schema.names[k], args[k])
            return recorded_call(rule, below, args)

        return record

    def resolve_device(self, key: int) -> Callable[..., Any]:
        """Return the kernel for all devices, the composed function, or alternatives; raise an error if none exists."""
        if self.body is not None:
            return self.body
        state = BY_KEY.get(key & DEVICE_MASK)
        device = "" if state is None else state.device.type
        if self.explicit is not None and not (self.custom and device == "meta"):
            return self.explicit
        if not key & DEVICE_MASK:
            return self._on_default
        return with_alternatives(self, device, lambda: self._missing(device or "tensors of several devices"))

    def _on_default(self, *args: Any) -> Any:
        """Run a call without tensors on the default device."""
        device = default_state().device.type
        return (self.overrides.get(device) or self._missing(device))(*args)

    def _missing(self, device: str) -> Callable[..., Any]:
        if device == "meta" and not self.schema.results:
            return lambda *args: None
        if device == "meta":
            raise UnsupportedOperator(self.name, "a call on meta", "no function tells shapes of its results",
                                      "register one with register_fake")
        raise UnsupportedOperator(self.name, f"a call on {device}", "no kernel is registered for this device",
                                  "register one with register_kernel, or a decomposition")

    def how(self, state: Any, dtype: Any) -> str:
        """Return ``registered``, ``composite`` or ``none``."""
        if self.body is not None:
            return "composite"
        return "registered" if self.explicit or state.device.type in self.overrides else "none"


def _as_list(value: Any) -> Any:
    """Return a sequence of any class as a list for kernels; return other values unchanged."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def count_change(value: Any) -> None:
    """Count an in-place change of one tensor or several."""
    for tensor in value if isinstance(value, (tuple, list)) else (value,):
        if hasattr(tensor, "_key"):
            bump(tensor)


# ------------------------------------------------------------------------------------------------------- gradients


def check_positional(what: str, operator: LibraryOperator) -> None:
    """Reject tensors that are passed by name only: gradients belong to positions.

    Raises:
        UnsupportedOperator: The operator has such a tensor.
    """
    named = [p.name for p in operator.schema.parameters if p.keyword_only and p.is_tensor]
    if named:
        raise UnsupportedOperator(what, f"{operator.schema.text}, with {', '.join(named)} after the *",
                                  "kwarg-only Tensor args have no gradient", "put tensors before the *")


def check_unrecorded(operator: LibraryOperator, name: str, value: Any) -> None:
    """Reject writes to tensors that require a gradient.

    Raises:
        AutogradError: A tensor requires a gradient.
    """
    if any(getattr(x, "_key", 0) & AUTOGRAD for x in (value if isinstance(value, (tuple, list)) else (value,))):
        raise AutogradError(operator.name, f"an argument {name!r} that requires grad",
                            "what the operator writes to requires no grad while gradients are recorded",
                            "use torch.no_grad(), or detach() it")


def recorded_call(rule: type[Function], below: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Run ``below`` unrecorded and attach a node with the rule's backward to its results."""
    flat, spec = tree_flatten(args)
    ctx: Any = make_context(rule, tuple(flat))
    ctx._spec = spec
    ctx.needs_input_grad = tree_unflatten(ctx.needs_input_grad, spec)
    edges = tuple([(a._grad_fn or a) if getattr(a, "_key", 0) & AUTOGRAD else None for a in flat])
    with no_grad():
        output = below(*args)
        rule.setup_context(ctx, args, output)
    results, shape = tree_flatten(output)
    if not any(hasattr(value, "_key") for value in results):
        return output
    made = record_function(rule, ctx, tuple(flat), edges, tuple(results), any(edge is not None for edge in edges))
    return tree_unflatten(made, shape)


def make_rule(operator: LibraryOperator, backward: Callable[..., Any],
              setup_context: Callable[..., Any] | None) -> type[Function]:
    """Return a rule from functions: ``backward(ctx, *grads)`` and ``setup_context(ctx, inputs, output)``."""
    parameters = operator.schema.parameters
    extra = [p.name for p in parameters if p.keyword_only]

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        # As in PyTorch's dispatcher, backward may omit gradients of trailing arguments that have their defaults.
        ctx._needed = len(user_arguments(operator, inputs, spread=False)[0])
        if setup_context is None:
            return
        count = len(inputs) - len(extra)
        if extra:
            setup_context(ctx, inputs[:count], dict(zip(extra, inputs[count:], strict=True)), output)
        else:
            setup_context(ctx, inputs, output)

    def run(ctx: Any, *grads: Any) -> Any:
        wanted = ctx.needs_input_grad
        ctx.needs_input_grad = tree_unflatten(wanted, ctx._spec)
        returned = backward(ctx, *grads)
        given = returned if isinstance(returned, tuple) else (returned,)
        count = len(parameters) - len(extra)
        if ctx._needed <= len(given) < count:
            given += (None,) * (count - len(given))
        elif len(given) > count and all(value is None for value in given[count:]):
            given = given[:count]
        if len(given) != count:
            raise AutogradError("backward", f"{len(given)} gradients from {operator.name} for {count} arguments",
                                "backward returns a gradient or None for each argument with a position",
                                "return as many")
        return _flat_gradients(given + (None,) * len(extra), ctx._spec)

    name = operator.name.replace("::", "_").replace(".", "_")
    return type(name, (Function,), {"setup_context": staticmethod(setup), "backward": staticmethod(run)})


def _flat_gradients(given: tuple[Any, ...], spec: Any) -> tuple[Any, ...]:
    """Return the gradients of arguments that may be lists, one per leaf."""
    flat: list[Any] = []
    for value, child in zip(given, spec.children(), strict=True):
        if value is None or not isinstance(value, (tuple, list)):
            flat += [value, *[None] * (child.num_leaves - 1)] if child.num_leaves else []
        else:
            flat += value
    return tuple(flat)


def _without_rule(operator: LibraryOperator) -> type[Function]:
    """Return the rule of an operator without a gradient: backward through it raises an error."""

    def backward(ctx: Any, *grads: Any) -> Any:
        raise AutogradError("backward", f"a result of {operator.name}", "it has no autograd formula",
                            "register one with register_autograd")

    return make_rule(operator, backward, None)


# ----------------------------------------------------------------------------------------------- functions of shapes


class FakeContext:
    """Services for a shape function."""

    def __init__(self, operator: str) -> None:
        self._operator = operator

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Return the size of a result that depends on values.

        Raises:
            MissingDataError: Tensors on meta need known sizes.
        """
        raise MissingDataError(self._operator, "a size that depends on data", "sizes of meta tensors are known",
                               "run the operator on a device that holds data")


class _Running(threading.local):
    context: FakeContext | None = None


_RUNNING: Final = _Running()


def get_ctx() -> FakeContext:
    """Return the context of the running shape function.

    Raises:
        ArgumentTypeError: No shape function is running.
    """
    if _RUNNING.context is None:
        raise ArgumentTypeError("get_ctx", "a call outside of a fake function",
                                "only functions registered with register_fake have a context", "call it within one")
    return _RUNNING.context


def fake_kernel(operator: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a shape function as a kernel, with a context while it runs."""

    def run(*args: Any, **keywords: Any) -> Any:
        before, _RUNNING.context = _RUNNING.context, FakeContext(operator)
        try:
            return function(*args, **keywords)
        finally:
            _RUNNING.context = before

    return run
