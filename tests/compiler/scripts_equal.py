"""Scripts over values that are equal but not the same: numbers, ranges, orders of sets, keys, identities."""

from __future__ import annotations

import enum
import math
import re
import types

import numpy as np

import tensocket as torch

from .scripts import CALLS, calls, outcome, vector


def not_a_number_in_a_list(compiled):
    nan = float("nan")
    items = [nan]
    for read in (lambda x: x * 2 if nan in items else x * 3, lambda x: x * items.count(nan),
                 lambda x: x * 2 if items == [nan] else x * 3, lambda x: x * 2 if (nan,) == tuple(items) else x * 3,
                 lambda x: x * 2 if nan in set(items) else x * 3, lambda x: x * dict.fromkeys(items, 2).get(nan, 3)):
        items[0] = nan
        run = compiled(read)
        yield from calls(run)
        items[0] = float("nan")
        yield from calls(run)
        items[0] = nan
        yield from calls(run)


def not_a_number_as_a_key(compiled):
    nan = float("nan")
    table = {nan: 2.0}
    run = compiled(lambda x: x * table.get(nan, 1.0))
    yield from calls(run)
    nan = float("nan")
    yield from calls(run)
    table[nan] = 3.0
    yield from calls(run)


def not_a_number_as_an_argument(compiled):
    nan = float("nan")
    items = [nan]
    run = compiled(lambda x, k: x * 2 if k in items else x * 3)
    yield from calls(run, vector(), nan)
    yield from calls(run, vector(), float("nan"))
    yield from calls(run, vector(), nan)


def zero_of_numpy_changes_sign(compiled):
    for kind in (np.float64, np.float32, np.complex64):
        k = kind(0.0)
        run = compiled(lambda x: x * math.copysign(2.0, k.real))  # noqa: B023
        yield from calls(run)
        k = kind(-0.0)
        yield from calls(run)


def number_of_numpy_changes_type(compiled):
    k = np.float32(2)
    run = compiled(lambda x: torch.as_tensor(x.double().numpy() * k) * k.itemsize)
    for each in (np.float32(2), np.float64(2), np.int32(2), np.int8(2), 2, True, np.bool_(True)):
        k = each
        yield from calls(run)


def tuple_with_zeros(compiled):
    pair = (0.0, (1,))
    run = compiled(lambda x: x * math.copysign(2.0, pair[0]) + (1 if type(pair[1][0]) is int else 2))
    for each in ((0.0, (1,)), (-0.0, (1,)), (0.0, (True,)), (-0.0, (1.0,)), (0, (1,))):
        pair = each
        yield from calls(run)


def ranges_that_are_equal(compiled):
    span = range(0, 3, 2)
    run = compiled(lambda x: x * span.stop)
    yield from calls(run)
    span = range(0, 4, 2)
    yield from calls(run)
    span = range(0)
    yield from calls(run)
    span = range(5, 5)
    yield from calls(run)


def slices_that_are_equal(compiled):
    part = slice(1, 2)
    run = compiled(lambda x: x * len(repr(part)))
    for each in (slice(1, 2), slice(1.0, 2), slice(True, 2), slice(1, 2, None)):
        part = each
        yield from calls(run)


def aliases_that_are_equal(compiled):
    alias = types.GenericAlias(list, (1,))
    run = compiled(lambda x: x * len(repr(alias.__args__[0])))
    for each in (1, True, 1.0):
        alias = types.GenericAlias(list, (each,))
        yield from calls(run)


def patterns_that_are_equal(compiled):
    pattern = re.compile("a")
    run = compiled(lambda x: x * len(pattern.findall("aA")))
    for each in (re.compile("a"), re.compile("a", re.IGNORECASE), re.compile("[a]")):
        pattern = each
        yield from calls(run)


def order_of_a_set(compiled):
    values = {8, 0}
    run = compiled(lambda x: x * (next(iter(values)) + 1))
    yield from calls(run)
    values.clear()
    values.update([0, 8])
    yield from calls(run)
    values.clear()
    values.update([8])
    values.add(0)
    yield from calls(run)


def order_of_a_frozen_set(compiled):
    values = frozenset([8, 0])
    run = compiled(lambda x: x * (next(iter(values)) + 1))
    yield from calls(run)
    values = frozenset([0, 8])
    yield from calls(run)


def order_of_keys(compiled):
    table = {"a": 2.0, "b": 3.0}
    run = compiled(lambda x: x * next(iter(table.values())) + (1 if next(iter(table)) == "a" else 2))
    yield from calls(run)
    table["a"] = table.pop("a")
    yield from calls(run)
    table["b"] = table.pop("b")
    yield from calls(run)


def kinds_of_keys(compiled):
    table = {1: 2.0}
    run = compiled(lambda x: x * len(repr(next(iter(table)))))
    yield from calls(run)
    del table[1]
    table[True] = 2.0
    yield from calls(run)
    del table[True]
    table[1.0] = 2.0
    yield from calls(run)


def texts_that_are_equal(compiled):
    text = "abcdefgh"
    other = "".join(["abcd", "efgh"])
    run = compiled(lambda x: x * 2 if text is other else x * 3)
    yield from calls(run)
    text = other
    yield from calls(run)


def objects_found_by_identity(compiled):
    class Never:
        def __eq__(self, other):
            return False

        __hash__ = None
    thing = Never()
    items = [thing]
    run = compiled(lambda x: x * 2 if thing in items else x * 3)
    yield from calls(run)
    thing = Never()
    yield from calls(run)
    items[0] = thing
    yield from calls(run)


def number_with_attributes(compiled):
    class Own(float):
        scale = 2.0

        def __mul__(self, other):
            return float(self) * other
    k = Own(3.0)
    k.bias = 1.0
    run = compiled(lambda x: x * float(k * 2.0) + k.bias + k.scale)
    yield from calls(run)
    k.bias = 5.0
    yield from calls(run)
    Own.__mul__ = lambda self, other: 7.0
    yield from calls(run)
    k = Own(3.0)
    k.bias = 6.0
    yield from calls(run)


def text_with_attributes(compiled):
    class Own(str):
        __slots__ = ("k",)

        def __len__(self):
            return self.k
    text = Own("abc")
    text.k = 2
    run = compiled(lambda x: x * len(text))
    yield from calls(run)
    text.k = 3
    yield from calls(run)


def enumeration_as_a_number(compiled):
    class Size(enum.IntEnum):
        SMALL = 2
        LARGE = 3
    run = compiled(lambda x, size: x * size)
    yield from calls(run, vector(), Size.SMALL)
    Size.SMALL._value_ = 5
    yield from calls(run, vector(), Size.SMALL)
    yield from calls(run, vector(), Size.LARGE)
    yield from calls(run, vector(), 2)


def members_by_name_and_value(compiled):
    class Kind(enum.Enum):
        A = 2.0
        B = 3.0
    name = "A"
    run = compiled(lambda x: x * Kind[name].value + len(Kind) + (1 if Kind(2.0) is Kind.A else 2))
    yield from calls(run)
    name = "B"
    yield from calls(run)
    Kind._value2member_map_[2.0] = Kind.B
    yield from calls(run)
    Kind._member_map_["B"] = Kind.A
    yield from calls(run)


def numbers_that_decide(compiled):
    chosen = {2.0: 5.0, 3.0: 7.0}
    run = compiled(lambda x, k: x * (2 if k > 5 else 3) * chosen.get(k, 1.0) + int(k) + len(f"{k}"))
    for k in range(2 * CALLS):
        yield outcome(run, vector(), k / 2)
    for k in range(CALLS):
        yield outcome(run, vector(), k)
    for k in (math.inf, -math.inf, math.nan, 1e300, 5e-324, -0.0, 2 ** 70):
        yield outcome(run, vector(), k)


def sizes_that_decide(compiled):
    run = compiled(lambda x: (x * 2 if len(x) > 5 else x * 3) / x.shape[0] + x.numel() % 3 + torch.arange(len(x)))
    for k in (4, 4, 5, 6, 7, 8, 1, 2, 3, 0, 9, 15, 4, 6):
        for _ in range(3):
            yield outcome(run, torch.ones(k))


def sizes_that_agree(compiled):
    run = compiled(lambda x, y: x * 2 if x.shape == y.shape else x.sum() * y if len(x) < len(y) else y - len(x))
    for m, n in ((3, 3), (4, 4), (5, 4), (4, 5), (6, 6), (1, 6), (6, 1), (7, 7), (0, 0)):
        for _ in range(3):
            yield outcome(run, torch.ones(m), torch.ones(n))


def whole_numbers_as_sizes(compiled):
    run = compiled(lambda x, n: torch.cat([x[:n].repeat(2), torch.ones(abs(n)), x.sum()[None] * n]))
    for n in (1, 2, 3, 4, 5, 0, -1, 2, True, False):
        for _ in range(3):
            yield outcome(run, vector(), n)
