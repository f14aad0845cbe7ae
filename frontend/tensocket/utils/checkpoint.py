"""Activation checkpointing: backward recomputes the values that it needs instead of storing them.

Without re-entrance, placeholders replace the tensors that the function saves. When backward unpacks the first of them,
the function runs again, and its saved tensors, in the same order, are the values. With re-entrance, one node represents
the function; its backward runs the function with recording and then an inner backward.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from tensocket_compiler.capture.listed import register_state
from tensocket_core.autograd.engine import current_pass
from tensocket_core.autograd.graph import saved_tensors_hooks
from tensocket_core.dispatch.autocast import choices, chosen
from tensocket_core.dispatch.modes import as_leaf
from tensocket_operators import Tensor, enable_grad, errors, float32, is_grad_enabled, no_grad
from tensocket_operators.autograd import Function, backward
from tensocket_operators.random import device_positions, from_positions

from ._device_states import (
    DefaultDeviceType,
    check_backward_validity,
    detach_variable,
    get_device_states,
    set_device_states,
)
from ._pytree import tree_map as tree_map

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "DefaultDeviceType",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

ContextPair = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class CheckpointError(errors.AutogradError):
    """The error for a second run that saved other tensors than the first."""


class _EarlyStop(threading.local):
    override: bool | None = None


_EARLY_STOP: Final = _EarlyStop()
register_state("checkpoint_early_stop", _EARLY_STOP)


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Set whether a second run stops when it has all saved tensors, for checkpoints that are made in this block.

    Args:
        enable: Whether it stops.
    """
    before, _EARLY_STOP.override = _EARLY_STOP.override, enable
    try:
        yield
    finally:
        _EARLY_STOP.override = before


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Accept PyTorch's setting; errors always list the saved tensors.

    Args:
        enabled: Whether checkpoints of this block list them, regardless of their ``debug``.
    """
    yield


def noop_context_fn() -> ContextPair:
    """Return two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
               context_fn: Callable[[], ContextPair] = noop_context_fn, determinism_check: str = "default",
               debug: bool = False, early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """Run a function; for its backward, a second run recomputes the values that backward needs.

    Args:
        function: A function that computes the same when it runs again.
        args: Its arguments.
        use_reentrant: Whether one node runs an inner backward; pass False, which allows keywords, ``grad``, nesting and
            graphs in arguments. By default, True with a warning, as in PyTorch.
        context_fn: A function that returns two contexts, for the first and the second run.
        determinism_check: ``default`` compares shapes, dtypes and devices of both runs, ``none`` only their number.
        debug: Accepted as in PyTorch; errors always list the saved tensors.
        early_stop: Whether the second run stops when it has all saved tensors.
        preserve_rng_state: Whether the second run draws the same random numbers.
        kwargs: Its keyword arguments.

    Raises:
        ArgumentError: A setting does not exist or belongs to the other kind of checkpoint.
        CheckpointError: In backward, the second run saved other tensors than the first.
    """
    if determinism_check not in ("default", "none"):
        raise errors.ArgumentError("checkpoint", f"determinism_check {determinism_check!r}",
                                   "the check is 'default' or 'none'", "pass one of them")
    if use_reentrant is None:
        warnings.warn("checkpoint: pass use_reentrant explicitly; False is recommended, True is assumed", stacklevel=2)
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise errors.ArgumentError("checkpoint", f"keyword arguments {', '.join(kwargs)} with use_reentrant=True",
                                       "the re-entrant form passes arguments by position", "pass use_reentrant=False")
        if context_fn is not noop_context_fn:
            raise errors.ArgumentError("checkpoint", "context_fn with use_reentrant=True",
                                       "contexts belong to the other form", "pass use_reentrant=False")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    stop = early_stop if _EARLY_STOP.override is None else _EARLY_STOP.override
    frame = _Frame(function, args, kwargs, preserve_rng_state, context_fn(), determinism_check, stop)
    return frame.run()


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
                          **kwargs: Any) -> Any:
    """Run functions in sequence and checkpoint all segments but the last.

    Args:
        functions: Modules or functions, or a ``Sequential``.
        segments: Number of segments.
        input: The argument of the first one.
        use_reentrant: As in ``checkpoint``.
        kwargs: ``preserve_rng_state``.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise errors.ArgumentError("checkpoint_sequential", f"keyword arguments {', '.join(kwargs)}",
                                   "there is only preserve_rng_state", "leave them out")
    items = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 1 <= segments <= max(len(items), 1):
        raise errors.ArgumentError("checkpoint_sequential", f"{segments} segments of {len(items)} functions",
                                   "there is at least one function in a segment", "pass fewer segments")
    size = len(items) // segments
    for start in range(0, size * (segments - 1), size):
        part = _chain(items[start:start + size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return _chain(items[size * (segments - 1):])(input)


def _chain(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for function in functions:
            value = function(value)
        return value

    return run


# ------------------------------------------------------------------------------------------------ without re-entrance


class _Stop(BaseException):
    """The exception that stops a second run once it has saved all tensors that backward needs."""

    def __init__(self, frame: _Frame) -> None:
        super().__init__()
        self.frame = frame


class _Place:
    """A placeholder that a node holds instead of a tensor: the saved tensor's number, and values by backward pass."""

    __slots__ = ("__weakref__", "values")

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}


class _Inputs(Function):
    """A function that saves the tensors among a call's arguments, so that an outer checkpoint's hooks pack them."""

    @staticmethod
    def forward(ctx: Any, anchor: Any, *tensors: Any) -> Any:
        """Save the tensors; the result only provides a node."""
        ctx.save_for_backward(*tensors)
        return anchor.new_empty((0,))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Refuse: this node never receives a gradient.

        Raises:
            AutogradError: It received one.
        """
        raise errors.AutogradError("checkpoint", "a gradient of the place of arguments", "it takes no part in backward",
                                   "use the results of the function")


class _Frame:
    """One checkpointed call."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], preserve: bool,
                 contexts: ContextPair, check: str, early_stop: bool) -> None:
        self.function = function
        self.contexts = contexts
        self.check = check
        self.early_stop = early_stop
        self.states = device_positions() if preserve else None
        self.precisions = choices()
        self.places: list[weakref.ref[_Place]] = []
        #: Backward passes for which the function ran a second time.
        self.computed: set[int] = set()
        #: Whether the first run is over; backward passes inside of it find only the tensors that it has saved so far.
        self.completed = False
        self.descriptions: list[str] = []
        self.keywords = tuple(kwargs)
        values = [*args, *kwargs.values()]
        self.positions = [k for k, v in enumerate(values) if isinstance(v, Tensor)]
        self.arguments = [None if isinstance(v, Tensor) else v for v in values]
        self.count = len(args)
        self.inputs = self._keep([values[k] for k in self.positions])
        self.given = values

    def _keep(self, tensors: list[Any]) -> Any:
        if not is_grad_enabled() or not tensors:
            return None
        anchor = as_leaf(tensors[0].detach().new_zeros((), dtype=float32))
        return _Inputs.apply(anchor, *tensors).grad_fn

    def run(self) -> Any:
        """Do the first run and return its result."""
        values, self.given = self.given, []
        args, kwargs = self._split(values)
        if not is_grad_enabled():
            with self.contexts[0]:
                return self.function(*args, **kwargs)
        with saved_tensors_hooks(self._pack, self._unpack), self.contexts[0]:
            result = self.function(*args, **kwargs)
        self.completed = True
        return result

    def _split(self, values: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        return values[:self.count], dict(zip(self.keywords, values[self.count:], strict=True))

    def _pack(self, tensor: Any) -> _Place:
        place = _Place()
        self.places.append(weakref.ref(place))
        self.descriptions.append(_describe(tensor))
        return place

    def _unpack(self, place: _Place) -> Any:
        running = current_pass()
        if running is None:
            return self._unpack_alone(place)
        number = running.number
        if number not in self.computed:
            self.computed.add(number)
            running.callbacks.append(lambda: self._forget(number))
            self._compute(number)
        if number not in place.values:
            raise CheckpointError("checkpoint", "a saved tensor that was unpacked before in this backward pass",
                                  "what the second run computed is kept until it is unpacked",
                                  "read ctx.saved_tensors once")
        return place.values.pop(number)

    def _unpack_alone(self, place: _Place) -> Any:
        """Compute a saved tensor outside of a backward pass: every access runs the function again."""
        self._compute(0)
        value = place.values[0]
        self._forget(0)
        return value

    def _forget(self, number: int) -> None:
        self.computed.discard(number)
        for ref in self.places:
            place = ref()
            if place is not None:
                place.values.pop(number, None)

    def _compute(self, number: int) -> None:
        """Run the function a second time and fill the placeholders that are still in use."""
        values = list(self.arguments)
        if self.inputs is not None:
            for position, tensor in zip(self.positions, self.inputs.saved_tensors, strict=True):
                values[position] = tensor.detach().requires_grad_(tensor.requires_grad)
        args, kwargs = self._split(values)
        recomputed: list[str] = []

        def pack(tensor: Any) -> Any:
            index = len(recomputed)
            recomputed.append(_describe(tensor))
            place = self.places[index]() if index < len(self.places) else None
            if place is not None:
                place.values[number] = tensor.detach()
            if self.early_stop and len(recomputed) == len(self.places):
                raise _Stop(self)
            return tensor

        restored = contextlib.nullcontext() if self.states is None else from_positions(self.states)
        try:
            with (restored, chosen(*self.precisions), enable_grad(),
                  saved_tensors_hooks(pack, lambda tensor: tensor), self.contexts[1]):
                self.function(*args, **kwargs)
        except _Stop as stop:
            if stop.frame is not self:
                raise
        self._compare(recomputed)

    def _compare(self, recomputed: list[str]) -> None:
        if not self.completed:
            recomputed = recomputed[:len(self.descriptions)]
        if len(recomputed) != len(self.descriptions):
            raise CheckpointError("checkpoint", f"{len(recomputed)} saved tensors in the second run and "
                                  f"{len(self.descriptions)} in the first", "both runs save the same tensors",
                                  "make the function compute the same again")
        different = [f"{k}: {a} and {b}"
                     for k, (a, b) in enumerate(zip(self.descriptions, recomputed, strict=True)) if a != b]
        if different and self.check == "default":
            raise CheckpointError("checkpoint", f"saved tensors that differ between both runs, {'; '.join(different)}",
                                  "both runs save the same tensors", "make the function compute the same again")


def _describe(tensor: Any) -> str:
    return f"{tensor.dtype.name}{list(tensor.shape)} on {tensor.device}"


# --------------------------------------------------------------------------------------------------- with re-entrance


class CheckpointFunction(Function):
    """A node for a function; its backward runs the function again and then an inner backward."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Run the function without recording."""
        tensors = [a for a in args if isinstance(a, Tensor)]
        if tensors:
            check_backward_validity(tensors)
        ctx.run_function = run_function
        ctx.states = device_positions() if preserve_rng_state else None
        ctx.precisions = choices()
        ctx.arguments = [None if isinstance(a, Tensor) else a for a in args]
        ctx.positions = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*tensors)
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run the function with recording, then run backward through the new graph.

        Raises:
            AutogradError: The pass has chosen inputs, or none of the results has a gradient.
        """
        running = current_pass()
        if running is not None and running.wanted is not None:
            raise errors.AutogradError("checkpoint", "grad, or backward with inputs=, with use_reentrant=True",
                                       "the inner backward accumulates into all leaves", "pass use_reentrant=False")
        arguments = list(ctx.arguments)
        for position, tensor in zip(ctx.positions, ctx.saved_tensors, strict=True):
            arguments[position] = tensor.detach().requires_grad_(tensor.requires_grad)
        restored = contextlib.nullcontext() if ctx.states is None else from_positions(ctx.states)
        with restored, chosen(*ctx.precisions), enable_grad():
            outputs = ctx.run_function(*arguments)
        pairs = [(output, grad)
                 for output, grad in zip(outputs if isinstance(outputs, tuple) else (outputs,), grads, strict=True)
                 if isinstance(output, Tensor) and output.requires_grad]
        if not pairs:
            raise errors.AutogradError("checkpoint", "a function none of whose results requires grad",
                                       "a checkpointed function has a gradient", "call it without checkpoint")
        with no_grad():
            backward([output for output, _ in pairs], [grad for _, grad in pairs])
        return None, None, *[a.grad if isinstance(a, Tensor) else None for a in arguments]
