"""The launches of an unrolled composite, as one call of machine code.

An unrolled composite does nothing but call operators. If these do nothing but launch kernels, or can do so in place of
a host library with the same bits, the device records the launches and repeats them (``launch/replay.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tensocket_core.device import BY_KEY
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, DTYPE_MASK, DTYPE_OF
from tensocket_core.launch.entries import ENABLED
from tensocket_core.launch.replay import DEVICE_ELEMENTS, ELEMENTS, compiled_launches
from tensocket_core.tensor import Tensor

from .kernels import launching_kernels
from .notes import OTHER, Notes, tensors_in

if TYPE_CHECKING:
    from ..kinds.composite import Composite

Closure = Callable[..., Any]
#: Types of arguments of which equal ones are mostly one object.
_SINGLE: Final = (bool, str)


def may_launch(notes: Notes, args: Sequence[Any]) -> bool:
    """Whether machine code can serve calls with such arguments, if all operators launch kernels.

    Tensors are small, not in lists, distinct, on one device with a code generator, and not recorded; their dtypes, or
    those of their arrays, differ if their keys do.
    """
    tensors = [x for value in args for x in tensors_in(value)]
    keys = {x._key & (DEVICE_MASK | DTYPE_MASK | AUTOGRAD) for x in tensors}
    devices = {key & DEVICE_MASK for key in keys}
    if not ENABLED or notes.masked or notes.changes or len(devices) != 1 or any(key & AUTOGRAD for key in keys):
        return False
    if len({DTYPE_OF[key & DTYPE_MASK].numpy for key in keys}) < len(keys) or len(set(map(id, tensors))) < len(tensors):
        return False
    runtime = BY_KEY[devices.pop()].runtime
    most = ELEMENTS if runtime.profile.host_resident else DEVICE_ELEMENTS
    return runtime.target is not None and all(isinstance(x, Tensor) or not [*tensors_in(x)] for x in args) and all(
        x._array.size <= most for x in tensors)


def launched(notes: Notes, composite: Composite, run: Closure, made: Closure, args: Sequence[Any]) -> Closure | None:
    """Return a function that repeats the launches of a composite, or None.

    Args:
        notes: The operators of a call with such arguments.
        composite: The composite.
        run: Its function.
        made: Serves the calls that have other layouts.
        args: Arguments of a call.
    """
    tensors = [k for k, x in enumerate(args) if isinstance(x, Tensor)]
    same = {k: x for k, x in enumerate(args) if k not in tensors}
    state = BY_KEY[args[tensors[0]]._key & DEVICE_MASK]
    code = compiled_launches(state, partial(_launching, composite, run), args, tensors, made, same=same,
                             wants_kernels=state.runtime.profile.host_resident)
    single = all(x is None or type(x) in _SINGLE for x in same.values())
    if code is None or (notes.result_class is None and not notes.distinct and single):
        return code
    # Machine code compares objects: it gets those of the recorded call in place of equal ones.
    scope = {**notes.scope, "code": code, "other": OTHER, **{f"same{k}": x for k, x in same.items()}}
    given = ", ".join([f"same{k}" if k in same else name for k, name in enumerate(notes.names)])
    lines = [f"def lead({', '.join(notes.names)}):", *[f"    {line}" for line in notes.takes],
             f"    if not ({' and '.join([*notes.distinct, *notes.values]) or True}): return other",
             f"    made = code({given})"]
    if notes.result_class is not None:
        scope["make"] = getattr(notes.result_class, "_make", notes.result_class)
        lines.append("    if type(made) is tuple: return make(made)")
    exec(compile("\n".join([*lines, "    return made", ""]), __file__, "exec"), scope)
    return scope.pop("lead")  # type: ignore[no-any-return]


def _launching(composite: Composite, run: Closure, *args: Any) -> Any:
    """Call a composite; while its launches are recorded, its operators launch kernels. Several results are a tuple."""
    with launching_kernels(marks=True):
        made = composite.invoke(run, args)
    return tuple(made) if isinstance(made, (tuple, list)) else made
