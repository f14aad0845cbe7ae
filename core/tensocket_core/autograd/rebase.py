"""In-place changes and views: a tensor and its recorded views are one history.

When a view is modified, its base becomes the result of writing the view into the base's old value; when a base is
modified, its views become readings of the new value. Geometry says which elements these are.
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
from ..dispatch.lazy import turned
from ..dispatch.modes import NOTE_VIEW
from ..dispatch.schema import parse_schema
from ..geometry import Shape, element_strides, memory_offset
from ..keys import AUTOGRAD, DIFFERENTIABLE, LAZY
from .node import gradient_place
from .record import attach, edge_of, move_retained, retained_by

#: Recorded views of one base after which the list of them is searched for dead ones.
_MANY: Final = 64
#: References in ``require_with_views`` to a counter that nobody else holds.
_OWN_COUNTER: Final = 2


def positions(like: Any, shape: Shape, strides: Shape, offset: int) -> Any:
    """Places in memory of the elements of a geometry, as an int64 vector on the device of ``like``."""
    place = like.new_arange(offset, offset + 1, 1).reshape((1,) * len(shape))
    for axis, (size, step) in enumerate(zip(shape, strides, strict=True)):
        along = tuple(-1 if k == axis else 1 for k in range(len(shape)))
        place = place + (like.new_arange(0, size, 1) * step).reshape(along)
    return place.expand(shape).reshape(-1)


def extent(shape: Shape, strides: Shape) -> int:
    """Return the number of elements from the first to the last one in memory."""
    return 0 if 0 in shape else sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1


def overlaps(shape: Shape, strides: Shape) -> bool:
    """Whether several elements may share a place in memory."""
    reach = 0
    for stride, size in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n != 1):
        if stride <= reach:
            return 0 not in shape
        reach += stride * (size - 1)
    return False


def added_up(grad: Any, strides: Shape, offset: int, base: tuple[Shape, Shape]) -> Any:
    """Return the gradients of a view of any geometry, added up where its elements lie, as the base lies in memory."""
    size = extent(*base)
    # The view may reach out of its base, to both sides.
    low, high = min(0, offset), max(size, offset + extent(tuple(grad.shape), strides))
    memory = grad.new_zeros(high - low).scatter_add(
        0, positions(grad, tuple(grad.shape), strides, offset - low), grad.reshape(-1)
    )
    if overlaps(*base):
        # Elements of the base that share memory share its gradient evenly.
        places = positions(grad, *base, -low)
        counts = places.new_zeros(high - low).scatter_add(0, places, places.new_ones(places.shape))
        memory = memory / counts.clamp_min(1)
    return memory.as_strided(*base, -low)


def _region(grad: Any, base: tuple[Shape, Shape], view: tuple[Shape, Shape, int]) -> Any:
    """Return the part of a base's gradient that belongs to a view."""
    shape, strides = base
    if is_contiguous(shape, strides):
        memory = grad.contiguous().reshape(-1)
        first = memory.storage_offset()
        return memory.as_strided(view[0], view[1], view[2] + first)
    memory = grad.new_zeros(extent(shape, strides)).scatter_add(
        0, positions(grad, shape, strides, 0), grad.reshape(-1)
    )
    return memory.as_strided(*view)


def _remainder(grad: Any, base: tuple[Shape, Shape], view: tuple[Shape, Shape, int]) -> Any:
    """Return a base's gradient with zeros where a view was written."""
    marks = (grad.detach() != grad.detach()).new_zeros(extent(*base))
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
    """Return the two rules where memory holds conjugates or negatives: gradients are those of what is in memory.

    ``bits`` are those of the keys of base and view.
    """
    mixed = of_base is not of_view

    def in_memory(grad: Any, bits: int) -> Any:
        return _parts(turned(grad, bits)) if mixed else turned(grad, bits)

    def shown(grad: Any, bits: int, is_complex: bool) -> Any:
        return turned(_typed(grad, is_complex) if mixed else grad, bits)

    read = Derivative(input=lambda grad, base, view, bits: shown(
        added_up(in_memory(grad, bits[1]), view[1], view[2], base), bits[0], of_base))
    write = Derivative(
        input=lambda grad, base, view, bits: shown(
            _remainder(in_memory(grad, bits[0]), base, view), bits[0], of_base),
        src=lambda grad, base, view, bits: shown(
            _region(in_memory(grad, bits[0]), base, view), bits[1], of_view),
    )
    read.bind(parse_schema("as_strided(Tensor input, any base, any view, any bits) -> Tensor"))
    write.bind(parse_schema("copy_slices(Tensor input, Tensor src, any base, any view, any bits) -> Tensor"))
    return read, write


_LAZY: Final = {(of_base, of_view): _lazy(of_base, of_view) for of_base in (False, True) for of_view in (False, True)}


def _mixed(of_base: bool) -> tuple[Derivative, Derivative]:
    """Return the two rules where either the base or the view is complex and the other one real: all geometry is of
    parts.
    """
    read = Derivative(input=lambda grad, base, view: _typed(added_up(_parts(grad), view[1], view[2], base), of_base))
    write = Derivative(
        input=lambda grad, base, view: _typed(_remainder(_parts(grad), base, view), of_base),
        src=lambda grad, base, view: _typed(_region(_parts(grad), base, view), not of_base),
    )
    read.bind(parse_schema("as_strided(Tensor input, any base, any view) -> Tensor"))
    write.bind(parse_schema("copy_slices(Tensor input, Tensor src, any base, any view) -> Tensor"))
    return read, write


_MIXED: Final = {of_base: _mixed(of_base) for of_base in (False, True)}


def note_view(view: Any) -> None:
    """Remember a recorded view at its base, weakly."""
    base = view._base
    known = base._views
    if not known:
        base._views = [weakref.ref(view)]
        return
    if len(known) % _MANY == 0:
        known[:] = [ref for ref in known if ref() is not None]
    known.append(weakref.ref(view))


NOTE_VIEW.append(note_view)


def unrecorded(tensor: Any) -> Any:
    """Return the base of a tensor, or itself, if it is not part of a graph; None if it is.

    Asked before a recorded in-place change, for ``adopt_views``.
    """
    base = tensor if tensor._base is None else tensor._base
    return None if base._key & AUTOGRAD or base._level else base


def adopt_views(base: Any, changed: Any) -> None:
    """Before a base becomes a part of a graph: remember the views that were made when it was none.

    Views of plain tensors are not remembered when they are made, because next to none of them needs it. All views
    share the version counter; where more hold it than are known here, the garbage collector knows whom the base is
    held by.
    """
    counter, known = base._version_counter, 1 if changed is base else 2
    if type(counter) is list and sys.getrefcount(counter) == known + 2:  # this function's variable and the argument
        found = [changed] if changed is not base else []
    else:
        found = [x for x in gc.get_referrers(base) if hasattr(type(x), "_grad_fn") and x._base is base]
    base._views = [weakref.ref(view) for view in found]


def require_with_views(base: Any, holders: int) -> None:
    """Before a tensor starts to require a gradient: let views that were made when it did not require one, too.

    They are not part of its history, so that they cannot be modified while gradients are recorded, and gradients of
    them lead nowhere. Views hold the version counter and the tensor; the garbage collector is asked for them only
    where others hold both.

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


def follow(changed: Any) -> None:
    """After a recorded in-place change: record it for the base and the views."""
    if changed._base is not None:
        write_back(changed)
    elif changed._views:
        reread(changed)


def _rules(view: Any, base: Any) -> tuple[Derivative, Derivative]:
    of_base = base.is_complex()
    if (view._key | base._key) & LAZY:
        return _LAZY[of_base, view.is_complex()]
    return (_READ, _WRITE) if of_base is view.is_complex() else _MIXED[of_base]


def _place(tensor: Any, parts: bool) -> tuple[Shape, Shape, int]:
    """Shape, strides and place in memory; ``parts`` takes complex elements as two floats."""
    array = tensor._array
    shape, strides, offset = array.shape, element_strides(array), memory_offset(array)
    if not parts or not tensor.is_complex():
        return shape, strides, offset
    return (*shape, 2), (*(2 * s for s in strides), 1), 2 * offset


def _geometry(view: Any, base: Any) -> tuple[Any, ...]:
    """Return the arguments of the rules: the layouts of base and view, and their bits where either is lazy."""
    mixed = base.is_complex() is not view.is_complex()
    shape, strides, start = _place(base, mixed)
    *seen, offset = _place(view, mixed)
    geometry = (shape, strides), (seen[0], seen[1], offset - start)
    bits = base._key & LAZY, view._key & LAZY
    return (*geometry, bits) if any(bits) else geometry


def write_back(view: Any) -> None:
    """After a recorded in-place change of a view: record it for the base and the other views."""
    base = view._base
    geometry = _geometry(view, base)
    _reattach(base, _rules(view, base)[1], (edge_of(base), edge_of(view)), (base, view, *geometry))
    reread(base, view)


def reread(base: Any, changed: Any = None) -> None:
    """After a recorded in-place change of a base: its recorded views, except ``changed``, read the new value."""
    for ref in base._views:
        view = ref()
        # A part that ``unsafe_split`` made does not count as a view of its base any more.
        if view is None or view is changed or view._base is not base:
            continue
        if view._fixed_view is not None:
            view._grad_fn = LostHistory(view._fixed_view)
            view._key |= AUTOGRAD
        else:
            renew(view)


def renew(view: Any) -> None:
    """Let a recorded view read the present value of its base."""
    base = view._base
    _reattach(view, _rules(view, base)[0], (edge_of(base),), (base, *_geometry(view, base)))


def renew_hooked(view: Any) -> bool:
    """Whether hooks or a kept gradient belong to the value of a view that is about to change; they stay with it.

    The view gets a node of its own in that case, so that gradients of the new value pass the hooks by, as they do in
    PyTorch.
    """
    node = view._grad_fn
    if node is None or gradient_place(node)[0].extras is None or not view._base._key & AUTOGRAD:
        return False
    renew(view)
    return True


class LostHistory:
    """The ``_grad_fn`` of a view whose base was modified while gradients were recorded, and that cannot follow.

    Every use raises: recording asks for the truth value of a history before it becomes an edge.

    Args:
        reason: Why it is such a view, as in ``_fixed_view``.
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
        move_retained(tensor, keeping)
