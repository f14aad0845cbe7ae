"""Views as built-in functions: the geometry of calls that came before, in a table that machine code looks up.

A call without a record goes to the next path; then the plan's function tells what the next path makes of such calls,
and a record of that is compared once with what the machine code makes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tensocket_plugins.contract.plans import RecordedView, ViewPlan

from ..code.pointers import address_of
from .builtin import Code
from .call_code import Head, Record
from .call_tables import CallTable
from .layout import WRITEABLE
from .view_code import Kind, Result, ViewCode
from .wrappers import find_wrapper

if TYPE_CHECKING:
    from ..code.compiler import Compiler
    from .layout import Layout


class ViewCompiler:
    """Compiles the functions of views for one device; their machine code is the same for all plans of a class."""

    def __init__(self, compiler: Callable[[], Compiler], layout: Layout) -> None:
        self._compiler, self._layout = compiler, layout
        self._codes: dict[type, Code | None] = {}

    def compile(self, plan: ViewPlan, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the function; None for a wrapper of an unknown layout."""
        kind = plan.wrapper.kind
        if kind not in self._codes:
            self._codes[kind] = self._code(plan)
        code = self._codes[kind]
        return None if code is None else ViewTable(plan, code, next_path).function

    def _code(self, plan: ViewPlan) -> Code | None:
        wrapper = find_wrapper(plan.wrapper)
        if wrapper is None:
            return None
        f = ViewCode(self._layout, plan, wrapper)
        return f.compile(self._compiler(), f.name, plan.wrapper, plan.mark)


class ViewTable(CallTable):
    """The records of one function of views."""

    def __init__(self, plan: ViewPlan, code: Code, next_path: Callable[..., Any]) -> None:
        super().__init__(code, next_path, plan.wrapper.kind, {Head.OVERRIDES: id(plan.overrides)}, plan)
        self._plan = plan

    def learn(self, words: Any, key: int, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Add a record of the views that the plan's function makes."""
        plan = self._plan
        found = plan.function(*args, **named)
        if found is NotImplemented:
            return False
        if found is None or found is args[0]:
            self.add(words, key, Kind.OTHER if found is None else Kind.SAME, [], args, named)
            return True
        source = getattr(args[0], plan.wrapper.array)
        record = self.add(words, key, Kind.VIEWS if isinstance(found, tuple) else Kind.VIEW,
                          [_result(x, source) for x in _several(found)], args, named)
        if not self._agrees(found, args, named):
            record[Record.KIND] = Kind.OTHER
        return True

    def _agrees(self, wanted: Any, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Whether the machine code makes the views that the plan's function made."""
        made, plan = self.function(*args, **named), self._plan
        return isinstance(wanted, tuple) == (type(made) is tuple) and all(
            _same(getattr(x, plan.wrapper.array), y.array) and getattr(x, plan.key) == y.key
            for x, y in zip(_several(made), _several(wanted), strict=True))


def _several(views: Any) -> tuple[Any, ...]:
    return views if isinstance(views, tuple) else (views,)


def _result(view: RecordedView, source: Any) -> tuple[list[int], Any]:
    """Return the words of a view's record, and the owners of their addresses."""
    array = view.array
    shape, strides = np.array(array.shape, np.int64), np.array(array.strides, np.int64)
    offset = (address_of(array) - address_of(source)) & (1 << 64) - 1
    words = [id(array.dtype), array.ndim, address_of(shape), address_of(strides), offset,
             WRITEABLE if array.flags.writeable or not source.flags.writeable else 0, id(view.key),
             0 if view.mark is None else id(view.mark)]
    assert len(words) == len(Result)
    return words, (shape, strides, array.dtype, view.key, view.mark)


def _same(found: Any, wanted: Any) -> bool:
    return bool(found.dtype is wanted.dtype and found.shape == wanted.shape and found.strides == wanted.strides
                and address_of(found) == address_of(wanted) and found.flags.writeable == wanted.flags.writeable)
