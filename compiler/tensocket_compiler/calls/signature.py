"""Quick tests of arguments: what ``capture.arguments`` guards, for the usual calls with tensors and plain values."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensocket_core.tensor import Tensor

from ..capture.arguments import ArgumentGuard
from ..capture.forms import OF_RUNTIME, grad_form_of, memory_of

#: An address behind all memory.
_NOWHERE: Final = 1 << 64
#: Values that are compared directly; others take the general test.
_VALUES: Final = frozenset({int, bool, str, type(None)})


class Signature:
    """The arguments that a variant serves.

    Args:
        guard: The general test, of arguments that share no memory among each other or with captured tensors.
        args: The arguments of the captured call.
        kwargs: Its arguments by name.
    """

    def __init__(self, guard: ArgumentGuard, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._guard = guard
        self._plain = not guard.moving and not guard.repeats and not kwargs and not guard.exact and all(
            type(x) in _VALUES or (type(x) is Tensor and type(x._array) is np.ndarray and not x.is_inference())
            for x in args)
        self._tests = [(None, x) if type(x) is not Tensor else (_form(x), None) for x in args] if self._plain else []
        spans = sorted(memory_of(x)[1:] for x in guard.captured if type(x._array) is np.ndarray)
        self._begins, self._ends = _merged(spans)
        self._tensors = sum(form is not None for form, _ in self._tests)

    def matches(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any] | None:
        """Return the tensors of a call in order; None if its arguments are not those that the variant serves."""
        if not self._plain:
            return self._guard.matches(args, kwargs)
        if kwargs or len(args) != len(self._tests):
            return None
        for x, (form, value) in zip(args, self._tests, strict=True):
            if form is None:
                if type(x) is not type(value) or x != value:
                    return None
            elif type(x) is not Tensor or _form(x) != form or (
                    x.__dict__ and x.__dict__.keys() - OF_RUNTIME):
                return None
        if not self._tensors:
            return ()
        tensors = [x for x in args if type(x) is Tensor]
        return tensors if self._apart(tensors) else None

    def _apart(self, tensors: Sequence[Any]) -> bool:
        """Whether tensors share no memory among each other or with captured tensors."""
        spans = []
        for x in tensors:
            array = x._array
            begin = x._device_state.runtime.data_ptr(array)
            end = begin + array.nbytes
            if not array.flags.c_contiguous:
                _, begin, end = memory_of(x)
            at = bisect.bisect_right(self._begins, begin)
            if (at and self._ends[at - 1] > begin) or self._begins[at] < end:
                return False
            spans.append((begin, end))
        spans.sort()
        return all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def _form(x: Any) -> tuple[Any, ...]:
    """Return what must be equal of a plain tensor; ``capture.forms.TensorForm`` names the parts."""
    array = x._array
    counter = x._version_counter
    return (x._key, array.dtype, array.shape, array.strides, x._grad_fn is None, x._base is None,
            x._grad if x._grad is None else grad_form_of(x), counter is None or type(counter) is list)


def _merged(spans: Sequence[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    """Return the begins and ends of intervals, overlapping ones merged."""
    begins: list[int] = []
    ends: list[int] = []
    for begin, end in spans:
        if ends and begin <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            begins.append(begin)
            ends.append(end)
    return [*begins, _NOWHERE], ends
