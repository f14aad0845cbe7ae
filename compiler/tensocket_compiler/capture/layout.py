"""The layout of the objects of this interpreter; proven in specimens at start, never assumed.

Guards read the memory of dicts, lists, sets, functions, cells, classes and frames. ``find_layout`` has the offsets of
CPython 3.11 to 3.13, and ``proofs`` reads every field back. A single wrong value, or another interpreter, gives no
layout; then nothing is observed and calls stay eager.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from dataclasses import replace
from typing import Final

from .offsets import WORD, Layout, deallocator, read_word
from .proofs import (
    CLASS,
    Plain,
    Slotted,
    attributes_are_stamped,
    containers_are_right,
    dicts_are_right,
    find_type_version,
    functions_are_right,
    objects_are_right,
    queues_are_right,
)

#: Attributes that describe a class, and change without its version.
CLASS_DESCRIPTIONS: Final = ("__name__", "__qualname__")
#: Attributes that describe a function.
DESCRIPTIONS: Final = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__",
                       *(("__type_params__",) if sys.version_info >= (3, 12) else ()))
#: By versions of CPython: offsets of the function in the interpreter's frame, and of the first of split values.
_FRAMES: Final = {(3, 11): (0, 0), (3, 12): (2 * WORD, 0), (3, 13): (2 * WORD, WORD)}


def find_layout() -> Layout | None:
    """Return the layout of this process; None if its interpreter is not a known one, or if a proof fails."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in _FRAMES:
        return None
    if ctypes.sizeof(ctypes.c_void_p) != WORD or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    if hasattr(sys, "getobjects"):
        return None  # other object headers: with tracing of references
    header = object.__basicsize__
    ordered = tuple(range(dict.__basicsize__, dict.__basicsize__ + 6 * WORD, WORD))

    def probe(x: int = 1, *, y: int = 2) -> None:
        """Do nothing."""

    probe.mark = 1  # type: ignore[attr-defined]
    if "__type_params__" in DESCRIPTIONS:
        probe.__type_params__ = (object(),)  # type: ignore[attr-defined]
    described = {name: getattr(probe, name) for name in DESCRIPTIONS}
    words = [read_word(id(probe) + WORD * k) for k in range(type(probe).__basicsize__ // WORD)]
    fields = [probe.__code__, probe.__defaults__, probe.__kwdefaults__, probe.__dict__, *described.values()]
    if any(id(field) not in words for field in fields):
        return None
    class_words = [read_word(id(Slotted) + k) for k in range(0, CLASS.__basicsize__, WORD)]
    names = {name: getattr(Slotted, name) for name in CLASS_DESCRIPTIONS}
    if any(class_words.count(id(text)) != 1 for text in names.values()):
        return None
    code, defaults, kwdefaults, attributes, *rest = [WORD * words.index(id(field)) for field in fields]
    function, split = _FRAMES[sys.version_info[:2]]
    layout = Layout(
        kind_of=header - WORD, used=header, version=header + WORD, keys=header + 2 * WORD, values=header + 3 * WORD,
        kind=10, index=9, filled=24, entries=32, length=header, items=header + WORD, fill=header,
        mask=header + 2 * WORD, table=header + 3 * WORD, content=header, code=code, defaults=defaults,
        kwdefaults=kwdefaults, attributes=attributes, texts=dict(zip(described, rest, strict=True)),
        class_texts={name: WORD * class_words.index(id(text)) for name, text in names.items()},
        type_version=find_type_version(), member=header + 3 * WORD, frame=header + WORD, function=function, data=header,
        rank=header + WORD, shape=header + 2 * WORD, strides=header + 3 * WORD, factory=dict.__basicsize__,
        first=header + WORD, result=header + 4 * WORD, linked=ordered, dealloc=deallocator(Plain), split=split)
    layout = replace(layout, stamped=attributes_are_stamped(layout))
    proven = layout.type_version and dicts_are_right(layout) and containers_are_right(layout)
    proven = proven and queues_are_right(layout)
    return layout if proven and functions_are_right(layout) and objects_are_right(layout) else None


#: The layout of this process; None if guards cannot watch memory in it.
LAYOUT: Final = find_layout()


def layout() -> Layout:
    """Return the known layout; nothing is watched without one."""
    assert LAYOUT is not None
    return LAYOUT
