"""In-place changes and views: a tensor and its recorded views share one history.

When a view is modified, its base becomes the result of writing the view into the base's old value; when a base is
modified, its views are read again from the new value. Shapes, strides and offsets identify the elements.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any, Final

from tensocket_plugins.contract.arrays import is_contiguous
from tensocket_plugins.contract.errors import AutogradError

from .. import functions
from ..dispatch.derivative import Derivative
from ..dispatch.lazy import with_lazy_bits
from ..dispatch.modes import ACTIVE, NOTE_VIEW
from ..dispatch.schema import parse_schema
from ..geometry import Shape, element_strides, memory_offset
from ..keys import AUTOGRAD, DIFFERENTIABLE, LAZY, WRAPPER
from ..strides import reach
from .node import gradient_place
from .record import attach, edge_of, retained_by, transfer_retained_grad

#: Number of recorded views of one base from which their list is searched for dead ones.
_MANY: Final = 64
#: References in ``require_with_views`` to a counter without other holders.
_OWN_COUNTER: Final = 2


def positions(like: Any, shape: Shape, strides: Shape, offset: int) -> Any:
    """Return the memory positions of the elements of a layout, as an int64 vector on the device of ``like``."""
    place = like.new_arange(offset, offset + 1, 1).reshape((1,) * len(shape))
    for axis, (size, step) in enumerate(zip(shape, strides, strict=True)):
        along = tuple(-1 if k == axis else 1 for k in range(len(shape)))
        place = place + (like.new_arange(0, size, 1) * step).reshape(along)
    return place.expand(shape).reshape(-1)


def overlaps(shape: Shape, strides: Shape) -> bool:
    """Whether several elements may share a position in memory."""
    end = 0
    for stride, size in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n != 1):
        if stride <= end:
            return 0 not in shape
        end += stride * (size - 1)
    return False


def added_up(grad: Any, strides: Shape, offset: int, base: tuple[Shape, Shape]) -> Any:
    """Scatter a view's gradient to a base's layout, and add up elements at the same position."""
    shape = tuple(grad.shape)
    shared = overlaps(*base)
    if not shared and (shape, strides, offset) == (*base, 0):
        return grad
    low, size = extent(shape, strides, offset, base)
    memory = grad.new_zeros(size)
    if overlaps(shape, strides) or grad._key & (AUTOGRAD | WRAPPER) or ACTIVE:
        memory = memory.scatter_add(0, positions(grad, shape, strides, offset - low), grad.reshape(-1))
    else:  # writing in place is neither differentiable nor batched
        memory.as_strided(shape, strides, offset - low).copy_(grad)
    if shared:
        # Elements of the base that share a position share its gradient evenly.
        places = positions(grad, *base, -low)
        counts = places.new_zeros(size).scatter_add(0, places, places.new_ones(places.shape))
        memory = memory / counts.clamp_min(1)
    return memory.as_strided(*base, -low)


def extent(shape: Shape, strides: Shape, offset: int, base: tuple[Shape, Shape]) -> tuple[int, int]:
    """Return the first position of a base and a view together, and their number; the view may extend on both sides."""
    low = min(0, offset)
    return low, max(reach(*base), offset + reach(shape, strides)) - low


def _region(grad: Any, base: tuple[Shape, Shape], view: tuple[Shape, Shape, int]) -> Any:
    """Return the part of a base's gradient that belongs to a view."""
    shape, strides = base
    if is_contiguous(shape, strides):
        memory = grad.contiguous().reshape(-1)
        first = memory.storage_offset()
        return memory.as_strided(view[0], view[1], view[2] + first)
    memory = grad.new_zeros(reach(shape, strides)).scatter_add(
        0, positions(grad, shape, strides, 0), grad.reshape(-1)
    )
    return memory.as_strided(*view)


def _remainder(grad: Any, base: tuple[Shape, Shape], view: tuple[Shape, Shape, int]) -> Any:
    """Return a base's gradient with zeros at the elements that the view overwrote."""
    marks = (grad.detach() != grad.detach()).new_zeros(reach(*base))
    marks.as_strided(*view).fill_(True)
    return grad.masked_fill(marks.as_strided(*base), 0)


_READ: Final = Derivative(input=lambda grad, base, view: added_up(grad, view[1], view[2], base))
_READ.bind(parse_schema("as_strided(Tensor input, any base, any view) -> Tensor"))
_WRITE: Final = Derivative(
    input=lambda grad, base, view: _remainder(grad, base, view), src=lambda grad, base, view: _region(grad, base, view)
)
_WRITE.bind(parse_schema("copy_slices(Tensor input, Tensor src, any base, any view) -> Tensor"))


def _parts(grad: Any) -> Any:
    return functions.view_as_real(grad.resolve_conj()) if grad.is_complex() else grad


def _typed(grad: Any, is_complex: bool) -> Any:
    return functions.view_as_complex(grad.contiguous().resolve_neg()) if is_complex else grad


def _lazy(of_base: bool, of_view: bool) -> tuple[Derivative, Derivative]:
    """Return the two rules for lazy tensors: gradients are computed for the values in memory.

    ``bits`` are those of the keys of base and view.
    """
    mixed = of_base is not of_view

    def in_memory(grad: Any, bits: int) -> Any:
        return _parts(with_lazy_bits(grad, bits)) if mixed else with_lazy_bits(grad, bits)

    def shown(grad: Any, bits: int, is_complex: bool) -> Any:
        return with_lazy_bits(_typed(grad, is_complex) if mixed else grad, bits)

    read = Derivative(input=lambda grad, base, view, bits: shown(
        added_up(in_memory(grad, bits[1]), view[1], view[2], base), bits[0], of_base))
    write = Derivative(
        input=lambda grad, base, view, bits: shown(_remainder(in_memory(grad, bits[0]), base, view), bits[0], of_base),
        src=lambda grad, base, view, bits: shown(_region(in_memory(grad, bits[0]), base, view), bits[1], of_view),
    )
    read.bind(parse_schema("as_strided(Tensor input, any base, any view, any bits) -> Tensor"))
    write.bind(parse_schema("copy_slices(Tensor input, Tensor src, any base, any view, any bits) -> Tensor"))
    return read, write


_LAZY: Final = {(of_base, of_view): _lazy(of_base, of_view) for of_base in (False, True) for of_view in (False, True)}


def _mixed(of_base: bool) -> tuple[Derivative, Derivative]:
    """Return the two rules for a complex base with a real view, or the reverse: layouts are those of the parts."""
    read = Derivative(input=lambda grad, base, view: _typed(added_up(_parts(grad), view[1], view[2], base), of_base))
    write = Derivative(
        input=lambda grad, base, view: _typed(_remainder(_parts(grad), base, view), of_base),
        src=lambda grad, base, view: _typed(_region(_parts(grad), base, view), not of_base),
    )
    read.bind(parse_schema("as_strided(Tensor input, any base, any view) -> Tensor"))
    write.bind(parse_schema("copy_slices(Tensor input, Tensor src, any base, any view) -> Tensor"))
    return read, write


_MIXED: Final = {of_base: _mixed(of_base) for of_base in (False, True)}


def record_view(view: Any) -> None:
    """Add a recorded view to its base's list, as a weak reference."""
    base = view._base
    known = base._views
    if not known:
        base._views = [weakref.ref(view)]
        return
    if len(known) % _MANY == 0:
        known[:] = [ref for ref in known if ref() is not None]
    known.append(weakref.ref(view))


NOTE_VIEW.append(record_view)


def unrecorded(tensor: Any) -> Any:
    """Return a tensor's base, or the tensor itself, if it is not part of a graph; None if it is.

    Recorders call this before a recorded in-place change, for ``adopt_views``.
    """
    base = tensor if tensor._base is None else tensor._base
    return None if base._key & AUTOGRAD or base._level else base


def adopt_views(base: Any, changed: Any) -> None:
    """Find the existing views of a base that is about to become part of a graph.

    Views of plain tensors are not listed at creation, because almost none of them needs it. All views share the version
    counter; if it has further holders, the garbage collector finds the objects that refer to the base.
    """
    counter, known = base._version_counter, 1 if changed is base else 2
    if type(counter) is list and sys.getrefcount(counter) == known + 2:  # this function's variable and the argument
        found = [changed] if changed is not base else []
    else:
        found = [x for x in gc.get_referrers(base) if hasattr(type(x), "_grad_fn") and x._base is base]
    base._views = [weakref.ref(view) for view in found]


def require_with_views(base: Any, holders: int) -> None:
    """Let existing views of a tensor require a gradient before the tensor itself does.

    They are not part of its history, so recorded calls cannot modify them, and their gradients lead nowhere. Views hold
    the version counter and the tensor; the garbage collector searches for them only if both have other holders.

    Args:
        base: The tensor.
        holders: References to it that do not come from a view.
    """
    if sys.getrefcount(base._version_counter) <= _OWN_COUNTER or sys.getrefcount(base) <= holders:
        return
    adopt_views(base, base)
    for ref in base._views:
        view = ref()
        if view is not None and view._key & DIFFERENTIABLE and not view._key & AUTOGRAD:
            view._key |= AUTOGRAD


def record_change(changed: Any) -> None:
    """Record an in-place change for the base and the views, after the call itself was recorded."""
    if changed._base is not None:
        write_back(changed)
    elif changed._views:
        update_views(changed)


def _rules(view: Any, base: Any) -> tuple[Derivative, Derivative]:
    of_base = base.is_complex()
    if (view._key | base._key) & LAZY:
        return _LAZY[of_base, view.is_complex()]
    return (_READ, _WRITE) if of_base is view.is_complex() else _MIXED[of_base]


def _place(tensor: Any, parts: bool) -> tuple[Shape, Shape, int]:
    """Return shape, strides and offset in memory; ``parts`` counts complex elements as two floats."""
    array = tensor._array
    shape, strides, offset = array.shape, element_strides(array), memory_offset(array)
    if not parts or not tensor.is_complex():
        return shape, strides, offset
    return (*shape, 2), (*(2 * s for s in strides), 1), 2 * offset


def _geometry(view: Any, base: Any) -> tuple[Any, ...]:
    """Return the arguments of the rules: the layouts of base and view, and their bits if either is lazy."""
    mixed = base.is_complex() is not view.is_complex()
    shape, strides, start = _place(base, mixed)
    *seen, offset = _place(view, mixed)
    geometry = (shape, strides), (seen[0], seen[1], offset - start)
    bits = base._key & LAZY, view._key & LAZY
    return (*geometry, bits) if any(bits) else geometry


def write_back(view: Any) -> None:
    """Record an in-place change of a view for the base and the other views, after the call itself was recorded."""
    base = view._base
    geometry = _geometry(view, base)
    _reattach(base, _rules(view, base)[1], (edge_of(base), edge_of(view)), (base, view, *geometry))
    update_views(base, view)


def update_views(base: Any, changed: Any = None) -> None:
    """Let the recorded views of a changed base, except ``changed``, read its new value."""
    for ref in base._views:
        view = ref()
        # A part that ``unsafe_split`` made no longer counts as a view of its base.
        if view is None or view is changed or view._base is not base:
            continue
        if view._fixed_view is not None:
            view._grad_fn = LostHistory(view._fixed_view)
            view._key |= AUTOGRAD
        else:
            reattach_view(view)


def reattach_view(view: Any) -> None:
    """Let a recorded view read the present value of its base."""
    base = view._base
    _reattach(view, _rules(view, base)[0], (edge_of(base),), (base, *_geometry(view, base)))


def reattach_hooked_view(view: Any) -> bool:
    """Give a view with hooks or a retained gradient a new node before a change; return whether it has them.

    Hooks stay with the old value's node, so that gradients of the new value bypass them, as in PyTorch.
    """
    node = view._grad_fn
    if node is None or gradient_place(node)[0].extras is None or not view._base._key & AUTOGRAD:
        return False
    reattach_view(view)
    return True


class LostHistory:
    """The ``_grad_fn`` of a view that cannot follow a recorded change of its base.

    Every use raises: recording tests the truth value of a history before it becomes an edge.

    Args:
        reason: The reason, as in ``_fixed_view``.
    """

    __slots__ = ("_reason",)

    def __init__(self, reason: tuple[str, str, str]) -> None:
        self._reason = reason

    def __bool__(self) -> bool:
        what, _, fix = self._reason
        raise AutogradError("grad_fn", f"{what}; its base or another view of its base has been modified inplace",
                            "such a view does not follow recorded changes of its base", fix)

    def __getattr__(self, name: str) -> Any:
        return bool(self)


def _reattach(tensor: Any, derivative: Derivative, edges: tuple[Any, ...], args: tuple[Any, ...]) -> None:
    keeping = retained_by(tensor)
    attach(tensor, derivative, edges, args, derivative.saved_positions)
    if keeping is not None:
        transfer_retained_grad(tensor, keeping)
