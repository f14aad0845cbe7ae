"""Guards over arguments: what may differ between calls, and reports of what may not."""

from __future__ import annotations

import collections
import random
import types

import numpy as np
import pytest

import tensocket as torch
from tensocket_compiler.capture.arguments import ArgumentGuard
from tensocket_compiler.capture.closure import find_guards
from tensocket_compiler.capture.forms import Occupied, find_aliases, memory_of
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_compiler.capture.watch import observe

Pair = collections.namedtuple("Pair", "a b")
BASE = torch.arange(24.0)
BYTES = torch.zeros(128, dtype=torch.uint8)
THING = object()


def ones(*shape, **options):
    return torch.ones(*shape, **options)


MATCHING = {
    "another tensor": ((ones(2, 3),), (torch.zeros(2, 3),)),
    "equal numbers": ((1, 2.0, True, None, "a"), (1, 2.0, True, None, "a")),
    "equal large numbers": ((10 ** 20, 0.1 + 0.2), (10 ** 20, 0.30000000000000004)),
    "lists": (([ones(2), 1],), ([torch.zeros(2), 1],)),
    "tuples": (((ones(2), (1,)),), ((torch.zeros(2), (1,)),)),
    "dicts": (({"a": ones(2)},), ({"a": torch.zeros(2)},)),
    "named tuples": ((Pair(ones(2), 1),), (Pair(torch.zeros(2), 1),)),
    "sizes": ((torch.Size([2, 3]),), (torch.Size([2, 3]),)),
    "the same object": ((THING,), (THING,)),
    "devices and dtypes": ((torch.float32, torch.device("cpu")), (torch.float32, torch.device("cpu"))),
    "parameters": ((torch.nn.Parameter(ones(2)),), (torch.nn.Parameter(ones(2)),)),
    "equal aliases": ((BASE[:4], BASE[2:6]), (BASE[8:12], BASE[10:14])),
    "the same tensor twice": ((BASE, BASE), (ones(24),) * 2),
    "strided tensors": ((ones(4, 6).t(),), (ones(4, 6).t(),)),
}
X = ones(2, 3)
CHANGED = {
    "shape": ((ones(2, 3),), (ones(3, 3),), "argument 0.shape"),
    "rank": ((ones(2, 3),), (ones(6),), "argument 0.shape"),
    "strides": ((ones(4, 4) * 1,), (torch.empty_strided((4, 4), (1, 4)),), "argument 0.strides"),
    "dtype": ((ones(2),), (ones(2, dtype=torch.float64),), "argument 0.dtype and device"),
    "device": ((ones(2),), (ones(2, device="meta"),), "argument 0.dtype and device"),
    "gradient required": ((ones(2),), (ones(2, requires_grad=True),), "argument 0.requires_grad"),
    "class": ((ones(2),), (torch.nn.Parameter(ones(2), requires_grad=False),), "argument 0.class"),
    "leaf": ((ones(2, requires_grad=True),), (ones(2, requires_grad=True) * 1,), "argument 0.is_leaf"),
    "view": ((ones(2),), (ones(4)[:2],), "argument 0._is_view()"),
    "number": ((1,), (2,), "argument 0"),
    "type of number": ((1,), (1.0,), "argument 0"),
    "bool for number": ((1,), (True,), "argument 0"),
    "sign of zero": ((0.0,), (-0.0,), "argument 0"),
    "text": (("a",), ("b",), "argument 0"),
    "None": ((None,), (0,), "argument 0"),
    "tensor for number": ((1.0,), (ones(()),), "argument 0"),
    "number of arguments": ((1,), (1, 2), "number of arguments"),
    "length of list": (([1],), ([1, 2],), "argument 0"),
    "tuple for list": (([1],), ((1,),), "argument 0"),
    "item": (([1, [2]],), ([1, [3]],), "argument 0[1][0]"),
    "keys": (({"a": 1},), ({"b": 1},), "argument 0"),
    "order of keys": (({"a": 1, "b": 2},), ({"b": 2, "a": 1},), "argument 0"),
    "item of dict": (({"a": 1},), ({"a": 2},), "argument 0['a']"),
    "class of named tuple": ((Pair(1, 2),), ((1, 2),), "argument 0"),
    "object": ((THING,), (object(),), "argument 0"),
    "dtype as argument": ((torch.float32,), (torch.float64,), "argument 0"),
    "attribute": ((ones(2),), (None,), "argument 0.attributes"),
    "gradient": ((ones(2, requires_grad=True),), (None,), "argument 0.grad"),
    "same tensors": ((X, X), (ones(2, 3), ones(2, 3)), "memory that arguments share"),
    "overlap": ((BASE[:4], BASE[4:8]), (BASE[:4], BASE[2:6]), "memory that arguments share"),
    "another overlap": ((BASE[:4], BASE[1:5]), (BASE[:4], BASE[2:6]), "memory that arguments share"),
    "aliases in a container": (([BASE[:4], BASE[4:8]],), ([BASE[:4], BASE[:4]],), "memory that arguments share"),
}


@pytest.mark.parametrize("name", MATCHING)
def test_arguments_that_match(name):
    before, after = MATCHING[name]
    guard = ArgumentGuard(before, {})
    assert not guard.refusals
    assert guard.why(after, {}) is None
    found = guard.matches(after, {})
    assert found is not None
    assert all(isinstance(tensor, torch.Tensor) for tensor in found)


@pytest.mark.parametrize("name", CHANGED)
def test_arguments_that_differ(name):
    before, after, path = CHANGED[name]
    if after == (None,):
        after = (ones(*before[0].shape, requires_grad=before[0].requires_grad),)
        if name == "attribute":
            after[0].mark = 1
        else:
            after[0].sum().backward()
    guard = ArgumentGuard(before, {})
    assert guard.matches(before, {}) is not None
    assert guard.matches(after, {}) is None
    change = guard.why(after, {})
    assert change is not None
    assert change.path == path


def test_keyword_arguments():
    guard = ArgumentGuard((), {"a": 1, "b": ones(2)})
    assert guard.matches((), {"b": torch.zeros(2), "a": 1}) is not None
    assert guard.why((), {"a": 2, "b": ones(2)}) == ("a", 1, 2)
    assert guard.why((), {"a": 1}).path == "names of arguments"


def test_tensors_come_in_the_order_of_arguments():
    tensors = [torch.full((2,), float(k)) for k in range(4)]
    guard = ArgumentGuard((ones(2), [ones(2), {"a": ones(2)}]), {"b": ones(2)})
    found = guard.matches((tensors[0], [tensors[1], {"a": tensors[2]}]), {"b": tensors[3]})
    assert all(a is b for a, b in zip(found, tensors, strict=True))


def test_arguments_that_are_captured_tensors():
    w = ones(8)
    guard = ArgumentGuard((ones(8),), {}, [w])
    assert guard.matches((torch.zeros(8),), {}) is not None
    assert guard.matches((w,), {}) is None
    assert guard.why((w,), {}).path == "memory that arguments share"
    again = ArgumentGuard((w,), {}, [w])
    assert again.matches((w,), {}) is not None
    assert again.matches((ones(8),), {}) is None


@pytest.mark.parametrize("seed", range(20))
def test_shared_memory_against_sets_of_bytes(seed):
    rng = random.Random(seed)

    def draw():
        start, step = rng.randrange(0, 80), rng.choice([1, 2])
        return BYTES[start:start + rng.randrange(0, 12) * step:step]
    tensors, captured = [draw() for _ in range(5)], [draw() for _ in range(4)]
    spans = [memory_of(tensor)[1:] for tensor in (*tensors, *captured)]
    inside = [set(range(*span)) for span in spans]
    wanted = {(a, b) for a in range(5) for b in range(a + 1, 9) if inside[a] & inside[b]}
    assert {(a, b) for a, b, _ in find_aliases(tensors, captured)} == wanted
    occupied = Occupied(captured)
    for k, tensor in enumerate(tensors):
        shares = any(inside[k] & other for other in inside[5:])
        assert occupied.overlaps(*memory_of(tensor)) or not shares
        assert shares or not inside[k] or not occupied.overlaps(*memory_of(tensor))


def test_identities_of_numbers_count_on_request():
    number = int("1000")
    assert ArgumentGuard((number,), {}).matches((int("1000"),), {}) is not None
    assert ArgumentGuard((number,), {}, exact=True).matches((int("1000"),), {}) is None


def test_arrays_and_tensors_with_attributes_are_refused():
    marked = ones(2)
    marked.mark = 1
    assert "NumPy array" in str(ArgumentGuard((np.ones(2),), {}).refusals[0])
    assert "attributes" in str(ArgumentGuard((marked,), {}).refusals[0])


@pytest.mark.skipif(LAYOUT is None, reason="nothing is observed without a known layout")
class TestModifiedArguments:
    """A call that modifies containers or attributes of its arguments is refused."""

    @pytest.mark.parametrize(("function", "make"), [
        (lambda items: items.append(1), list), (lambda table: table.update(a=len(table)), dict),
        (lambda items: items.reverse(), lambda: [1, 2]), (lambda x: setattr(x, "mark", x), lambda: ones(2)),
        (lambda x: x.requires_grad_(), lambda: ones(2)), (lambda x: x.resize_(1), lambda: ones(2)),
    ])
    def test_refusal(self, function, make):
        seen = observe(function, (make(),))
        assert any("modifies its arguments" in str(refusal) for refusal in seen.refusals)

    def test_objects_are_a_part_of_the_closure(self):
        options = types.SimpleNamespace(k=2.0)
        seen = observe(lambda x, o: x * o.k, (ones(2), options))
        guards = find_guards(seen)
        assert not guards.refusals
        options.k = 3.0
        assert guards.changed() == ("argument 1.k", 2.0, 3.0)
