"""View operators: new metadata on the same memory. They never call a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tensocket_core.autograd.conjugate import wirtinger
from tensocket_core.autograd.inference import COUNTER
from tensocket_core.autograd.view_history import record_view
from tensocket_core.device import DeviceState
from tensocket_core.dispatch.lazy import handle_with_bits
from tensocket_core.dispatch.operator import HostPath, Operator, check_dtype
from tensocket_core.keys import AUTOGRAD, CONJ, DIM0, DTYPE_MASK, DTYPE_OF, LAZY, NEG, SCALAR_MASK, dtype_bit
from tensocket_core.launch.path import FUNCTION_LADDER, LadderOperator, Signature
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentTypeError, DtypeError

from .noted_views import noted_views
from .private import private

_new = object.__new__


class View(Operator):
    """An operator whose result shares memory with its first argument.

    Attributes:
        view: ``view(array, *args) -> array`` over handles of either kind.
        host: The same over NumPy arrays, if they allow a shortcut.
    """

    kind = "view"

    def __init__(self, schema: str, doc: str, view: Callable[..., Any], host: Callable[..., Any] | None = None,
                 **record: Any) -> None:
        super().__init__(schema, doc, **record)
        self.view = view
        if self.derivative is not None:
            wirtinger(self.derivative)  # moving elements is the same for complex elements
        self.host = view if host is None else host

    def recording(self, below: Callable[..., Any], key: int) -> Callable[..., Any]:
        """Return the recorder, which links the view to its base, because the view follows in-place changes of it."""
        closure = super().recording(below, key)
        return closure if self.derivative is None else _noted(closure)

    def how(self, state: DeviceState, dtype: DType) -> str:
        """Return ``view``: no device runs a kernel."""
        return "view"

    def build(self, key: int, state: DeviceState) -> Callable[..., Any]:
        """Build the closure, which works on handles only."""
        view = self.host if state.runtime.profile.host_resident else self.view
        return self._viewer(view, key, key, state)

    def _viewer(self, view: Callable[..., Any], before: int, after: int, state: DeviceState) -> Callable[..., Any]:
        """Return the closure for the keys of the tensor (``before``) and of the view (``after``)."""
        if (before | after) & LAZY:
            next_path = view

            def view(array: Any, *args: Any) -> Any:
                return handle_with_bits(next_path(handle_with_bits(array, before, 0), *args), 0, after)

        made = viewer(view, after & ~(DIM0 | SCALAR_MASK), len(self.schema.parameters), self.next_path)
        return made if (before | after) & LAZY else noted_views(self, before, state, made)

    def next_path(self, input: Any, argument: Any) -> Any:
        """Return the result for an argument type that the view has no rule for; called while its error is handled."""
        raise


def viewer(view: Callable[..., Any], key: int, arguments: int,
           next_path: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a closure that makes a view tensor on ``view(array, ...)``; written out for two arguments, the most common
    case.

    Args:
        view: The function on handles; with two arguments, it may return None if it has no rule for the second one.
        key: The result's key, without ``DIM0``.
        arguments: Number of arguments, including the tensor.
        next_path: Called for a second argument of another type, and if ``view`` returns None for it.
    """

    def view_by(a: Any, argument: Any) -> Any:
        try:
            array = view(a._array, argument)
        except ArgumentTypeError:
            return next_path(a, argument)
        if array is None:
            return next_path(a, argument)
        version = a._version_counter
        if version is None:
            version = a._version_counter = [0]
        t = _new(Tensor)
        t._array = array
        t._key = key if array.shape else key | DIM0
        t._grad = t._grad_fn = None
        t._version_counter = version
        base = a._base
        if base is None:
            t._base = a
        else:
            t._base = base
            if a._fixed_view is not None:
                t._fixed_view = a._fixed_view
        return t

    def view_with(a: Any, *args: Any) -> Any:
        array = view(a._array, *args)
        version = a._version_counter
        if version is None:
            # The first view makes the counter, so that both sides count in-place changes together.
            version = a._version_counter = [0]
        t = _new(Tensor)
        t._array = array
        t._key = key if array.shape else key | DIM0
        t._grad = t._grad_fn = None
        t._version_counter = version
        base = a._base
        if base is None:
            t._base = a
        else:
            t._base = base
            if a._fixed_view is not None:
                t._fixed_view = a._fixed_view
        return t

    return view_by if arguments == 2 else view_with


class LazyView(View):
    """A view with other bits of ``LAZY``: the same memory, but other elements.

    Attributes:
        bits: The bits that change.
    """

    def __init__(self, schema: str, doc: str, bits: int, **record: Any) -> None:
        super().__init__(schema, doc, lambda array: array, **record)
        self.bits = bits

    def build(self, key: int, state: DeviceState) -> Callable[..., Any]:
        """Return the closure of a view whose key has these bits flipped."""
        return self._viewer(self.view, key, key ^ self.bits, state)


class RetypedView(View):
    """A view of the same bits as another dtype.

    Attributes:
        dtypes: The result's dtype by the input's.
        conjugates: Whether the view's elements are the negatives of those in memory if the tensor is conjugated.
        refuses: Bits of ``LAZY`` whose tensors have no such view.
    """

    def __init__(self, schema: str, doc: str, view: Callable[..., Any], dtypes: Mapping[DType, DType],
                 conjugates: bool = False, refuses: int = 0, **record: Any) -> None:
        super().__init__(schema, doc, view, **record)
        self.dtypes = dtypes
        self.conjugates = conjugates
        self.refuses = refuses

    def build(self, key: int, state: DeviceState) -> Callable[..., Any]:
        """Return the closure of a view whose key has the other dtype.

        Raises:
            DtypeError: The tensor's memory does not hold the elements that the view would have.
        """
        if key & self.refuses:
            kind = "conjugat" if self.refuses & CONJ else "negat"
            raise DtypeError(self.name, f"a {kind}ed view", f"{self.name} doesn't work on unresolved {kind}ed tensors, "
                             "whose elements are not in memory", "call resolve_conj() or resolve_neg(), which copy")
        bits = key & DTYPE_MASK
        dtype = self.dtypes[DTYPE_OF[bits]]
        check_dtype(self.name, state, dtype)
        view = self.host if state.runtime.profile.host_resident else self.view
        after = key & ~(bits | CONJ) | dtype_bit(dtype)
        return self._viewer(view, key, after ^ NEG if key & CONJ and self.conjugates else after, state)


def _noted(record: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``record`` with a note at the base, whose in-place changes the view follows."""

    def run_recorded(*args: Any) -> Any:
        view = record(*args)
        if view._version_counter is COUNTER:  # a view of an inference tensor is not part of any graph
            view._grad_fn = None
            view._key &= ~AUTOGRAD
            return view
        record_view(view)
        fixed = args[0]._fixed_view
        if view._fixed_view is not fixed:  # below a dispatch mode, autograd has recorded nothing
            view._fixed_view = fixed
        return view

    return run_recorded


class Custom(LadderOperator):
    """An operator run by one function over tensors: ``function(state, *args)``. The record defines the derivative; the
    function itself works on handles or detached tensors. ``host_path`` and ``replayable`` are as in composites;
    ``entry_path`` makes an entry, or a closure that compiles it later, with the host path behind it. ``moves`` says
    that it only moves or converts elements, so that all paths make the same bits; ``settles_layouts``, that the layouts
    of its results never depend on values.
    """

    kind = "custom"
    paths = FUNCTION_LADDER

    def __init__(self, schema: str, doc: str, run: Callable[..., Any], host_path: HostPath | None = None,
                 entry_path: HostPath | None = None, replayable: bool = False, moves: bool = False,
                 settles_layouts: bool = False, **record: Any) -> None:
        super().__init__(schema, doc, **record)
        self.run = run
        self.moves, self.settles_layouts = moves, moves or settles_layouts
        self.host_path = host_path
        self.entry_path = entry_path
        self.replayable = replayable

    def compose(self, call: Signature) -> Callable[..., Any]:
        """Return the function bound to its device."""
        return private(self.name, partial(self.run, call.state))

    def rounds_alike(self, call: Signature, args: Sequence[Any] = ()) -> bool:
        """Whether the operator moves elements, or has one path."""
        return self.moves or super().rounds_alike(call, args)

    def entry_closure(self, call: Signature, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return what ``entry_path`` makes."""
        if self.entry_path is None or not call.state.runtime.profile.host_resident:
            return None
        return self.entry_path(call.key, call.state, next_path)
