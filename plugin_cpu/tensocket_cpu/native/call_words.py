"""The words that describe a call: the types of its arguments, their values, and the layouts of tensors.

Each argument has the words of its type and of a number, the numbers of a tuple or list, the dtype, sizes and strides
of a tensor, or the identity of any other object. Functions here write words at ``out`` and return the address behind
them; null for numbers that no word holds, and for sequences of many items or dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .builder import NULL, Function, Value
from .builtin import Builtin
from .guards import int_word, python_int
from .layout import WRITEABLE
from .wrappers import Wrapper

#: The most words that describe a call; the most arguments; the most dimensions, and items of a tuple or list.
WORDS: Final = 192
_ARGUMENTS: Final = 8
_RANKS: Final = 8
#: Words that one argument may take at most, a tuple of slices in a tuple: types, counts, and three numbers for each.
_ROOM: Final = 4 + 7 * _RANKS
#: An odd number, whose bits mix those of a product.
_MIX: Final = 0x9E3779B97F4A7C15
_WORD: Final = 8
#: Dtypes of arrays without dimensions that may count by their element.
_ELEMENTS: Final = (np.float32, np.float64, np.int64, np.int32)


class CallDescription:
    """The code that writes the words of a call; methods and functions with a parameter ``out`` write helpers.

    Args:
        wrapper: The class of tensors.
        key: The slot of a tensor with an int that describes it, too.
        context: Lists of one object, whose identity describes the call, too.
        elements: Whether a tensor without dimensions also counts by its element.
    """

    def __init__(self, wrapper: Wrapper, key: str | None = None, context: Sequence[list[Any]] = (),
                 elements: bool = False) -> None:
        self._wrapper, self._key, self._context, self._elements = wrapper, key, context, elements

    def write(self, f: Builtin, words: Value) -> tuple[Value, Value]:
        """Write the words of the call; return their number and hash. Go to ``slow`` for unknown arguments."""
        total = f.arguments()
        f.require(total <= _ARGUMENTS)
        words[0] = f.count
        out = f.variable(words + _WORD)
        with f.loop(total - f.count) as k:
            # Names are one object in the whole process.
            out.value.store((f.names + f.offset("items")).pointer(k))
            out.value = out.value + _WORD
        for known in self._context:
            held = f.object(known)
            f.require(held.field("length") == 1)
            out.value.store(held.items().pointer(0))
            out.value = out.value + _WORD
        limit = words + _WORD * (WORDS - _ROOM)
        with f.loop(total) as k:
            f.require(out.value.compare("ule", limit))
            out.value = f.call(self._argument, f.args.pointer(k), k, out.value)
            f.require(out.value != NULL)
        size = (out.value.cast("ptrtoint", "i64") - words.cast("ptrtoint", "i64")) >> 3
        key = f.variable(0)
        with f.loop(size) as k:
            product = (key.value ^ words[k]) * (_MIX - (1 << 64))
            key.value = product ^ product >> 29
        return size, key.value

    def _argument(self, f: Function, item: Value, number: Value, out: Value) -> None:
        """Describe the argument of a number; the first one has to be a tensor if tensors have no key."""
        kind, after, tensor = item.field("type"), out + _WORD, self._wrapper.layout.kind
        out.store(kind)

        def is_subtype(other: type) -> Value:
            return f.api("PyType_IsSubtype", kind, f.object(other)) != 0

        with f.when(kind == f.object(tensor)):
            f.returns(f.call(self._tensor, item, after))
        with f.when(kind == f.object(int)):
            after.store(int_word(item))
            f.returns(after + _WORD)
        with f.when(kind == f.object(float)):
            after.store(item.field("number"))
            f.returns(after + _WORD)
        with f.when((kind == f.object(tuple)) | (kind == f.object(list))):
            f.returns(f.call(_sequence, item, after))
        with f.when(kind == f.object(slice)):
            f.returns(f.call(_slice, item, after))
        with f.when(item != f.object(None)):
            with f.when(is_subtype(tuple)):
                f.returns(f.call(_sequence, item, after))
            with f.when(is_subtype(tensor)):
                f.returns(f.call(self._tensor, item, after))
            if self._key is None:
                f.require(number != 0)
        after.store(item)
        f.returns(after + _WORD)

    def _tensor(self, f: Function, item: Value, out: Value) -> None:
        """Describe a tensor: key, element, and of its array dtype, rank and flag, sizes and strides."""
        array = self._wrapper.array(item)
        if self._key is not None:
            key = item.load(self._wrapper.offsets[self._key])
            f.require(key != NULL)
            out.store(python_int(key))
            out = out + _WORD
        rank = array.field("rank").cast("sext", "i64")
        f.require(rank <= _RANKS)
        if self._elements:
            out.store(0)
            with f.when(rank == 0):
                f.require(f.call(_element, array, out) != NULL)
            out = out + _WORD
        out[0] = array.field("dtype")
        out[1] = rank | (array.field("flags") & WRITEABLE).cast("sext", "i64")
        sizes, strides = array.field("shape"), array.field("strides")
        with f.loop(rank) as k:
            out[k + 2] = sizes[k]
            out[k + 2 + rank] = strides[k]
        f.returns(out + rank * (2 * _WORD) + 2 * _WORD)


def _element(f: Function, array: Value, out: Value) -> None:
    """Describe the element of an array without dimensions by its bytes, for the most frequent dtypes."""
    data = array.field("data")
    for dtype in map(np.dtype, _ELEMENTS):
        with f.when(array.field("dtype") == f.object(dtype)):
            out.store(data.load(type_=f"i{8 * dtype.itemsize}"))
            f.returns(out + _WORD)
    f.returns(NULL)


def _number(f: Function, item: Value, out: Value) -> None:
    """Describe an int or a float by its value, and any other object by its identity."""
    kind = item.field("type")
    out[0], out[1] = kind, item
    with f.when(kind == f.object(int)):
        out[1] = int_word(item)
    with f.when(kind == f.object(float)):
        out[1] = item.field("number")
    f.returns(out + 2 * _WORD)


def _slice(f: Function, item: Value, out: Value) -> None:
    """Describe the three parts of a slice."""
    for k in range(3):
        out = f.call(_number, (item + object.__basicsize__).pointer(k), out)
        f.require(out != NULL)
    f.returns(out)


def _items(f: Function, sequence: Value, out: Value) -> None:
    """Describe the number of items of a list or tuple, and each of them."""
    count = sequence.field("length")
    f.require(count <= _RANKS)
    out.store(count)
    items, place = sequence.items(), f.variable(out + _WORD)
    with f.loop(count) as k:
        item = items.pointer(k)
        kind = item.field("type")
        with f.when(kind == f.object(slice)):
            place.value.store(kind)
            place.value = f.call(_slice, item, place.value + _WORD)
        with f.otherwise():
            place.value = f.call(_number, item, place.value)
        f.require(place.value != NULL)
    f.returns(place.value)


def _sequence(f: Function, sequence: Value, out: Value) -> None:
    """Describe a list or tuple of integers, or one that holds such a sequence alone."""
    with f.when(sequence.field("length") == 1):
        first = sequence.items().pointer(0)
        kind = first.field("type")
        with f.when(kind != f.object(int)):
            is_sequence = f.variable(kind == f.object(list))
            with f.when(is_sequence.value == 0):
                is_sequence.value = f.api("PyType_IsSubtype", kind, f.object(tuple)) != 0
            with f.when(is_sequence.value):
                out[0], out[1] = 1, kind
                f.returns(f.call(_items, first, out + 2 * _WORD))
    f.returns(f.call(_items, sequence, out))
