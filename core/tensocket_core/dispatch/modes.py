"""Thread modes. ``ACTIVE`` is empty while no thread has a mode on, so the common case costs one truth test.

A thread's state masks the keys of its calls: ``include`` bits are added, ``exclude`` bits removed (turning recording
off is excluding ``AUTOGRAD``). Function and dispatch modes receive every call; see ``protocol``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ..keys import AUTOGRAD, DIFFERENTIABLE, WRAPPER
from . import trace
from .decorate import decorate

F = TypeVar("F", bound=Callable[..., Any])

#: Why a view must not be modified that was made without recording, of a tensor that requires a gradient.
MADE_WITHOUT_GRAD: Final = ("A view was created in no_grad mode and is being modified inplace with grad mode enabled",
                            "the view is not part of the graph that its base is part of",
                            "create and modify it both inside of no_grad or both outside, or use detach()")
#: The same for inference mode.
MADE_IN_INFERENCE: Final = ("A view was created in inference mode and is being modified inplace in normal mode",
                            "the view is not part of the graph that its base is part of",
                            "create and modify it both inside of inference_mode or both outside, or use detach()")
_LISTS: Final = (list, tuple)
#: Adds a view to its base's list; set by autograd.
NOTE_VIEW: Final[list[Callable[[Any], None]]] = []
#: Masks by their values. Compiled functions watch the identity of a state's mask, which thus does not change in vain.
_MASKS: Final[dict[int, int]] = {}
#: One entry per thread whose state differs from the default.
ACTIVE: Final[list[object]] = []


if trace.ENABLED:
    ACTIVE.append(None)


class _Busy:
    """An entry of ``ACTIVE`` that disappears when its thread's state returns to the default, or with the thread."""

    __slots__ = ()

    def __init__(self) -> None:
        ACTIVE.append(None)

    def __del__(self) -> None:
        ACTIVE.pop()


class _ThreadState(threading.local):
    """Dispatch state of a thread.

    Attributes:
        include: Key bits added to every call.
        exclude: Key bits removed from every call.
        function_modes: Active ``__torch_function__`` modes, innermost last.
        dispatch_modes: Active ``__torch_dispatch__`` modes, innermost last.
        before_dispatch: Value of ``exclude`` when the innermost ``__torch_dispatch__`` was called; None outside of one.
        overrides_off: Whether ``__torch_function__`` of subclasses is disabled.
        transforms: Running transforms, innermost last; while there are any, ``include`` has ``WRAPPER``.
        inference: Inference mode's function for results; None outside of it.
        tracer: Receiver of traced calls; None if calls are not traced.
    """

    include = 0
    exclude = 0
    function_modes: tuple[Any, ...] = ()
    dispatch_modes: tuple[Any, ...] = ()
    before_dispatch: int | None = None
    overrides_off = False
    transforms: tuple[Any, ...] = ()
    inference: Callable[[Any], Any] | None = None
    #: The mask of keys if masking is the state's only effect; None if it has others.
    mask: int | None = None if trace.ENABLED else -1
    tracer: trace.Tracer | None = trace.DEFAULT
    _busy: _Busy | None = None

    @property
    def grad_enabled(self) -> bool:
        """Whether operators record gradients."""
        return not self.exclude & AUTOGRAD


STATE: Final = _ThreadState()
#: Thread states that a helper thread inherits; each module with such a state adds it.
INHERITED: Final[list[threading.local]] = [STATE]


def update_state(**values: Any) -> dict[str, Any]:
    """Change attributes of this thread's state and return their former values."""
    state = STATE
    before = {name: getattr(state, name) for name in values}
    for name, value in values.items():
        setattr(state, name, _MASKS.setdefault(value, value) if type(value) is int else value)
    more = state.include or state.function_modes or state.dispatch_modes or state.inference or state.tracer
    state.mask = None if more else ~state.exclude
    if not (more or state.exclude or state.overrides_off):
        state._busy = None
    elif state._busy is None:
        state._busy = _Busy()
    return before


class thread_state:
    """A block ``with thread_state(exclude=AUTOGRAD):`` with other attributes of the thread's state."""

    __slots__ = ("_before", "_values")

    def __init__(self, **values: Any) -> None:
        self._values = values

    def __enter__(self) -> None:
        self._before = update_state(**self._values)

    def __exit__(self, *error: object) -> None:
        update_state(**self._before)


def untransformed() -> thread_state:
    """Return a context in which operators on real tensors bypass the running transforms."""
    return thread_state(transforms=(), include=STATE.include & ~WRAPPER)


def run_with_modes(operator: Any, key: int, args: tuple[Any, ...]) -> Any:
    """Run an operator while any thread has a mode on, or while calls are traced."""
    mask = STATE.mask
    if mask is None:
        return _run_in_state(operator, key, args)
    key &= mask
    kernel = operator.table.get(key) or operator.resolve(key)
    result = kernel(*args) if operator.body is None else operator.invoke(kernel, args)
    if not mask & AUTOGRAD and getattr(result, "_base", result) is not None:  # a view, or several results
        _settle_unrecorded(operator, result, args)
    return result


def _settle_unrecorded(operator: Any, result: Any, args: tuple[Any, ...]) -> None:
    """Mark views that were made without recording; results of other operators are never views."""
    before = STATE.before_dispatch
    if before is not None and not before & AUTOGRAD:
        return  # autograd is above this call, and records it if there is anything to record
    if operator.makes_views:
        _note_unrecorded(result, args)
    elif getattr(result, "_base", result) is not None:
        _part_from_bases(result, args)


def _part_from_bases(result: Any, args: tuple[Any, ...]) -> None:
    """Detach results that are views of an intermediate tensor from it; arguments and their views do not change."""
    for each in result if isinstance(result, tuple) else (result,):
        base = getattr(each, "_base", None)
        if base is None or each._fixed_view is not MADE_WITHOUT_GRAD:
            continue
        if not any(x is each or x is base or getattr(x, "_base", None) is base for x in _given(args)):
            each._base = each._fixed_view = None


def _given(args: tuple[Any, ...]) -> list[Any]:
    return [x for value in args for x in (value if isinstance(value, _LISTS) else (value,))]


def _note_unrecorded(result: Any, args: tuple[Any, ...]) -> None:
    """Mark unrecorded views as fixed, and let them require a gradient if their base does, as in PyTorch.

    A base outside of the graph may become part of one later, by a recorded change. An argument that is also the result,
    as of ``contiguous``, does not change.
    """
    given: Any = args
    for x in args:
        if isinstance(x, _LISTS) and x and type(x[0]) is not int:
            given = _given(args)
    for view in result if type(result) is tuple else (result,):
        base = getattr(view, "_base", None)
        if base is None or view._key & AUTOGRAD or not view._key & DIFFERENTIABLE:
            continue
        for x in given:
            if x is view:
                break
        else:
            view._fixed_view = MADE_WITHOUT_GRAD
            if base._key & AUTOGRAD:
                view._key |= AUTOGRAD
                NOTE_VIEW[0](view)


def of_data(tensor: Any) -> Any:
    """Return a tensor made from given data rather than by an operator: in inference mode, an inference tensor."""
    return tensor if STATE.inference is None else STATE.inference(tensor)


def _note_of_inference(result: Any, args: tuple[Any, ...]) -> None:
    """Do the same for views that inference mode makes of tensors of autograd."""
    for view in result if type(result) is tuple else (result,):
        base = getattr(view, "_base", None)
        if base is None or not view._key & DIFFERENTIABLE or view.is_inference():
            continue
        if any(x is view for x in _given(args)):
            continue
        view._fixed_view = MADE_IN_INFERENCE
        if base._key & AUTOGRAD:
            view._key |= AUTOGRAD
            NOTE_VIEW[0](view)


def _run_in_state(operator: Any, key: int, args: tuple[Any, ...]) -> Any:
    state = STATE
    if state.function_modes:
        return operator.run_function_mode(args)
    if state.dispatch_modes:
        key |= WRAPPER
    key = (key | state.include) & ~state.exclude
    if state.inference is not None:
        key &= ~AUTOGRAD
    kernel = operator.table.get(key)
    if kernel is None:
        kernel = operator.resolve(key)
    tracer = state.tracer
    result = operator.invoke(kernel, args) if tracer is None else tracer.operator(operator, key, kernel, args)
    if state.inference is None:
        if state.exclude & AUTOGRAD:
            _settle_unrecorded(operator, result, args)
        return result
    if args and result is args[0]:
        return result  # an argument that the operator modified
    result = state.inference(result)
    if operator.makes_views:
        _note_of_inference(result, args)
    return result


class set_grad_enabled:
    """Switch of recording, from the call on, or as a context manager or decorator."""

    __slots__ = ("_entered", "_previous", "mode")

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._previous = STATE.grad_enabled
        _switch(mode)
        self._entered = False

    def __enter__(self) -> None:
        if self._entered:
            self._previous = STATE.grad_enabled
            _switch(self.mode)
        self._entered = True

    def __exit__(self, *error: object) -> None:
        _switch(self._previous)

    def __call__(self, function: F) -> F:
        """Decorate ``function``; the mode then applies to its calls only, not from now on."""
        _switch(self._previous)
        mode = self.mode
        return decorate(lambda: set_grad_enabled(mode), function)  # type: ignore[no-any-return]


def _switch(enabled: bool) -> None:
    state = STATE
    exclude = state.exclude
    wanted = exclude & ~AUTOGRAD if enabled else exclude | AUTOGRAD
    if wanted != exclude:
        state.exclude = _MASKS.setdefault(wanted, wanted)
        if state.mask is not None:  # with other effects, the mask and the entry of ``ACTIVE`` stay as they are
            state.mask = ~wanted
            if not (wanted or state.overrides_off):
                state._busy = None
            elif state._busy is None:
                state._busy = _Busy()


class _Mode:
    """Context manager and decorator without effect before it is entered."""

    __slots__ = ("_previous",)
    mode: bool

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """Return a context, or the function decorated."""
        mode = object.__new__(cls)
        return mode if function is None else mode(function)

    def __enter__(self) -> None:
        self._previous = not STATE.exclude & AUTOGRAD
        _switch(self.mode)

    def __exit__(self, *error: object) -> None:
        _switch(self._previous)

    def __call__(self, function: F) -> F:
        """Decorate ``function``."""
        return decorate(type(self), function)  # type: ignore[no-any-return]


class no_grad(_Mode):
    """A block or function in which operators record no gradients."""

    __slots__ = ()
    mode = False


class enable_grad(_Mode):
    """A block or function in which operators record gradients, also within ``no_grad``."""

    __slots__ = ()
    mode = True


def is_grad_enabled() -> bool:
    """Whether operators of this thread record gradients."""
    return STATE.grad_enabled


def as_leaf(tensor: Any) -> Any:
    """Let a new tensor require a gradient."""
    tensor.requires_grad = True
    return tensor
