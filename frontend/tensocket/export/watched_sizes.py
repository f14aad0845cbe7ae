"""Symbolic sizes: while a run is captured, tensors tell its program sizes that know where they come from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Final

from tensocket_core import keys
from tensocket_core.tensor import Size
from tensocket_core.tensor import Tensor as CoreTensor
from tensocket_operators import Tensor

from .symbols import SizeOf, SymFloat, SymInt, symbolic

#: Recorders by thread, while their runs are captured.
_RECORDERS: Final[dict[int, Any]] = {}
_LOCK: Final = threading.Lock()
_MISSING: Final = object()
_plain_shape: Final[Any] = CoreTensor.shape
_plain_size: Final[Any] = Tensor.size
_plain_numel: Final[Any] = Tensor.numel
_plain_len: Final[Any] = Tensor.__len__


def _recorder_of(tensor: Any) -> tuple[Any, int] | None:
    """Return this thread's recorder, if a program asks a tensor of its run, and the tensor's number."""
    recorder = _RECORDERS.get(get_ident())
    if recorder is None or recorder.depth:
        return None
    number = recorder.number_of(tensor)
    return None if number is None else (recorder, number)


def _shape(self: Any) -> Any:
    found = _recorder_of(self)
    plain = _plain_shape.__get__(self)
    if found is None:
        return plain
    recorder, number = found
    sizes = [symbolic(n, SizeOf(number, dim), recorder.run.notes) for dim, n in enumerate(plain)]
    return tuple.__new__(Size, sizes)


def _size(self: Any, dim: Any = None) -> Any:
    if _recorder_of(self) is None:
        return _plain_size(self, dim)
    shape = _shape(self)
    if dim is None:
        return shape
    _plain_size(self, dim)  # raises for a wrong dimension
    return shape[dim]


def _numel(self: Any) -> Any:
    return _plain_numel(self) if _recorder_of(self) is None else _shape(self).numel()


def _len(self: Any) -> int:
    """Return the first size; Python takes nothing but a plain integer, so that the run is right only for this one."""
    found = _recorder_of(self)
    return int(_plain_len(self) if found is None or not self._array.shape else _shape(self)[0]._plain())


_SYMBOLIC: Final[dict[str, Any]] = {"shape": property(_shape), "size": _size, "numel": _numel, "nelement": _numel,
                                    "__len__": _len}
_BEFORE: Final[dict[str, Any]] = {}


def current_recorder() -> Any:
    """Return the recorder whose run has symbolic sizes in this thread; None without one."""
    return _RECORDERS.get(get_ident())


@contextmanager
def symbolic_sizes(recorder: Any) -> Iterator[None]:
    """Give the program of this thread symbolic sizes in a block; None gives it plain ones.

    Other threads keep plain sizes.
    """
    if recorder is None:
        yield
        return
    with _LOCK:
        _RECORDERS[get_ident()] = recorder
        if len(_RECORDERS) == 1:
            _BEFORE.update({name: vars(Tensor).get(name, _MISSING) for name in _SYMBOLIC})
            for name, value in _SYMBOLIC.items():
                setattr(Tensor, name, value)
            for table in (keys.SCALAR, keys.SCALAR_LEFT, keys.OPTIONAL):
                table.update({SymInt: table[int], SymFloat: table[float]} if int in table else {})
    try:
        yield
    finally:
        with _LOCK:
            del _RECORDERS[get_ident()]
            if not _RECORDERS:
                for name, value in _BEFORE.items():
                    if value is _MISSING:
                        delattr(Tensor, name)
                    else:
                        setattr(Tensor, name, value)
                for table in (keys.SCALAR, keys.SCALAR_LEFT, keys.OPTIONAL):
                    for kind in (SymInt, SymFloat):
                        table.pop(kind, None)
