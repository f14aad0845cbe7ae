"""Recorded calls of composites on small tensors as one node, whose rule computes the function again.

While gradients are recorded, every operator in a composite makes a node, and every node costs a rule in the backward
pass. On a few elements, that is all of the time. This path runs the composite without recording, as one call of machine
code where it can be, and records one node. Its rule calls the function with recording and returns the gradients of that
call; in passes that record nothing, the launches of all this are one replay (``differentiation.replayed_rules``).

Guard: the first tensor is small, and no mode, hook on saved tensors, tracer or observer is active. All other calls
record the operators of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tensocket_core.autograd.differentiate import partial_gradients
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.layers import record
from tensocket_core.dispatch.modes import ACTIVE, is_grad_enabled, set_grad_enabled
from tensocket_core.keys import AUTOGRAD
from tensocket_core.recording import OVERRIDDEN_KERNELS, RECORDING_SLOW_PATHS
from tensocket_plugins.contract.launch_recorder import RECORDERS, is_recording
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS

from ..kinds.private import without_base

if TYPE_CHECKING:
    from ..kinds.composite import Composite

Closure = Callable[..., Any]
#: Most elements of the first tensor: computing them again takes less time than one node.
ELEMENTS: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The tensors that a rule computes a composite from. Gradients do not depend on the values of others.

    Attributes:
        saved: Names of those that the node saves: they must not change before the backward pass.
        copied: Names of those that it saves copies of, because the operators in the function do not save them.
        constant: Names of those that it saves copies of and that never receive a gradient.
    """

    saved: Sequence[str] = ()
    copied: Sequence[str] = ()
    constant: Sequence[str] = ()


def recomputed_derivative(composite: Composite, tensors: Recomputed) -> Derivative:
    """Return the derivative of a composite, whose rule computes the function again.

    Args:
        composite: A function that changes no argument and returns one new tensor.
        tensors: The tensors that the rule takes.
    """
    schema = composite.schema
    unused = {schema.names[k] for k in schema.tensors} - {*tensors.saved, *tensors.copied, *tensors.constant}
    given = [f"{name}_shape" if name in unused else name for name in schema.names]
    shapes = [k for k, name in enumerate(given) if name != schema.names[k]]

    def rule(grad: Any, wanted: tuple[bool, ...], values: list[Any]) -> tuple[Any, ...]:
        for k in shapes:  # gradients do not depend on these values
            values[k] = grad.new_zeros(values[k])
        inputs = dict(zip(schema.tensors, wanted, strict=True))
        return _gradients(composite, grad, [k for k in inputs if inputs[k]], values)

    scope: dict[str, Any] = {"rule": rule}
    text = f"def joint(grad, wanted, {', '.join(given)}):\n    return rule(grad, wanted, [{', '.join(given)}])\n"
    exec(compile(text, __file__, "exec"), scope)
    derivative = Derivative(scope["joint"])
    derivative.bind(schema)
    return derivative


def _gradients(composite: Composite, grad: Any, inputs: list[int], args: list[Any]) -> tuple[Any, ...]:
    """Return the gradients of the inputs of a composite, and None for its other tensors."""
    def run(*tensors: Any) -> Any:
        for k, x in zip(inputs, tensors, strict=True):
            args[k] = x
        return composite.invoke(composite.body, tuple(args))

    found = dict(zip(inputs, gradients_of(run, [args[k] for k in inputs], grad, args), strict=True))
    return tuple([found.get(k) for k in composite.schema.tensors])


def gradients_of(run: Closure, inputs: Sequence[Any], grad: Any, others: Sequence[Any] = ()) -> list[Any]:
    """Return the gradients of a function's tensors from that of its result; they can be differentiated.

    Args:
        run: The function, of the inputs alone.
        inputs: Its tensors.
        grad: The gradient of its result.
        others: Further values that the function computes with.

    Returns:
        A gradient for each input; None for one that the result does not depend on.
    """
    # Plain passes do not turn recording off; nothing that they compute with requires a gradient.
    recorded = is_grad_enabled() and any(getattr(x, "_key", 0) & AUTOGRAD for x in (grad, *inputs, *others))
    tensors = []
    with set_grad_enabled(True):
        for given in inputs:
            x = given if recorded and given._key & AUTOGRAD else given.detach().requires_grad_()
            # Another tensor for each input: a tensor that is passed twice has two gradients. Passes to leaves add
            # gradients in place, which recordings of launches do not contain.
            tensors.append(x.view_as(x) if recorded or is_recording() else x)
        made = run(*tensors)
        if not made._key & AUTOGRAD:
            return [None] * len(tensors)
        return partial_gradients([made], tensors, [grad], create_graph=recorded)


def cut(value: Any) -> Any:
    """Return a tensor of a graph without it; other values as they are."""
    return value._cut() if getattr(value, "_key", 0) & AUTOGRAD else value


def recorded_at_once(composite: Composite, tensors: Recomputed, derivative: Derivative, key: int, next_path: Closure
                     ) -> Closure:
    """Return a closure that records small calls as one node.

    Args:
        composite: The operator.
        tensors: The tensors that its rule takes.
        derivative: Its gradients.
        key: A key of one device with ``AUTOGRAD``.
        next_path: Records the operators of the function, and serves all other calls.
    """
    names = composite.schema.names
    lead, constant = composite.schema.tensors[0], [names.index(name) for name in tensors.constant]
    copied = [names.index(name) for name in (*tensors.copied, *tensors.constant)]
    below: Closure | None = None

    def run(*args: Any) -> Any:
        nonlocal below
        below = below or composite.below(key & ~AUTOGRAD)
        made = composite.invoke(below, tuple(map(cut, args)))
        return made if made._base is None else without_base(made)  # of a tensor that is not part of the graph

    recorder = record(derivative, run, key)

    def at_once(*args: Any, **named: Any) -> Any:
        if ACTIVE or RECORDING_SLOW_PATHS or OVERRIDDEN_KERNELS or RECORDERS or VALUE_OBSERVERS or (
                not 0 < args[lead]._array.size <= ELEMENTS or len(args) + len(named) < len(names)):
            return next_path(*args, **named)
        if not copied:
            return recorder(*args, *named.values())
        given = [*args, *named.values()]
        for k in constant:
            given[k] = cut(given[k])
        if constant and not any(getattr(x, "_key", 0) & AUTOGRAD for x in given):
            return run(*given)
        for k in copied:
            if hasattr(given[k], "_key"):
                given[k] = given[k].clone()
        return recorder(*given)

    return at_once
