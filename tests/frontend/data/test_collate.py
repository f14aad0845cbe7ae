"""Batches of samples: every kind of nesting."""

from __future__ import annotations

from collections import OrderedDict, UserList, defaultdict, namedtuple
from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket.utils.data import default_collate, default_convert
from tensocket.utils.data._utils.collate import collate, default_collate_fn_map
from tensocket.utils.data._utils.pin_memory import pin_memory

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(("samples", "dtype"), [
    ([1, 2], torch.int64), ([1.0, 2.0], torch.float64), ([True, False], torch.bool),
    ([np.float32(1), np.float32(2)], torch.float32), ([np.float32(1), np.float64(2)], torch.float64),
    ([np.int8(1), np.int8(2)], torch.int8), ([np.bool_(True)], torch.bool), ([1, 2.5], torch.float32),
])
def test_numbers_become_tensors(samples, dtype):
    batch = default_collate(samples)
    assert batch.dtype is dtype
    assert batch.tolist() == [float(sample) for sample in samples]


def test_structures_are_collated_by_parts():
    batch = default_collate([{"p": Point(1, torch.ones(2)), "name": "a"}, {"p": Point(2, torch.zeros(2)), "name": "b"}])
    assert isinstance(batch["p"], Point)
    assert batch["p"].x.tolist() == [1, 2]
    assert batch["p"].y.tolist() == [[1, 1], [0, 0]]
    assert batch["name"] == ["a", "b"]
    parts = default_collate([(1, [2, 3]), (4, [5, 6])])
    assert type(parts) is list
    assert [part.tolist() for part in parts[1]] == [[2, 5], [3, 6]]
    assert default_collate([b"x", b"y"]) == [b"x", b"y"]
    assert default_collate([(), ()]) == []
    assert [part.tolist() for part in default_collate([range(2), range(2)])] == [[0, 0], [1, 1]]


def test_arrays_are_stacked():
    batch = default_collate([np.zeros((2, 3)), np.ones((2, 3))])
    assert batch.shape == (2, 2, 3)
    assert batch.dtype is torch.float64
    assert default_collate([np.zeros(2, np.float32), np.ones(2, np.float64)]).dtype is torch.float64


def test_types_of_containers_are_kept():
    counted = defaultdict(list, {"a": 1})
    batch = default_collate([counted, counted])
    assert type(batch) is defaultdict
    assert batch.default_factory is list
    assert batch["a"].tolist() == [1, 1]
    assert counted["a"] == 1
    assert type(default_collate([OrderedDict(a=1)])) is OrderedDict
    assert type(default_collate([UserList([1, 2])])) is UserList
    assert default_collate([MappingProxyType({"a": 1})])["a"].tolist() == [1]


def test_sequences_that_are_made_of_a_list():
    class Row(Sequence):
        def __init__(self, parts):
            self.parts = list(parts)

        def __getitem__(self, position):
            return self.parts[position]

        def __len__(self):
            return len(self.parts)

    batch = default_collate([Row([1, 2.0]), Row([3, 4.0])])
    assert type(batch) is Row
    assert [part.tolist() for part in batch] == [[1, 3], [2, 4]]
    assert type(default_convert(Row([np.ones(1)]))) is Row


def test_containers_that_cannot_be_made_again():
    class Fixed(tuple):
        __slots__ = ()

    class Lookup(dict):
        def update(self, *args):
            raise TypeError

    class Pair(UserList):
        def __setitem__(self, position, value):
            raise TypeError

    assert type(default_collate([Lookup(a=1)])) is dict
    assert type(default_collate([Pair([1])])) is list
    assert type(default_collate([Fixed([1])])) is list


@pytest.mark.parametrize("sample", [object(), None, {1, 2}, 1j, np.array(["a"]), np.array([None])])
def test_samples_without_a_batch(sample):
    with pytest.raises(ArgumentTypeError, match=r"\[default_collate\] found .* — batch must contain tensors, numpy "
                                                "arrays, numbers, dicts or lists — pass a collate_fn"):
        default_collate([sample])


def test_samples_that_differ():
    with pytest.raises(ArgumentError, match=r"\[default_collate\] sequences of lengths \[1, 2\] — "
                                            "each element in list of batch should be of equal size"):
        default_collate([[1], [1, 2]])
    with pytest.raises(RuntimeError, match="stack"):
        default_collate([torch.zeros(2), torch.zeros(3)])
    with pytest.raises(RuntimeError, match="stack"):
        default_collate([np.zeros(2), np.zeros(3)])
    with pytest.raises(KeyError):
        default_collate([{"a": 1}, {"b": 1}])


def test_own_types(monkeypatch):
    class Graph:
        def __init__(self, nodes):
            self.nodes = nodes

    class Tree(Graph):
        pass

    def join(batch, *, collate_fn_map):
        return Graph(sum(graph.nodes for graph in batch))

    monkeypatch.setitem(default_collate_fn_map, Graph, join)
    batch = default_collate([{"g": Tree(2), "n": 1}, {"g": Graph(3), "n": 2}])
    assert batch["g"].nodes == 5
    assert batch["n"].tolist() == [1, 2]
    assert collate([1, 2], collate_fn_map={(str, int): lambda batch, *, collate_fn_map: sum(batch)}) == 3
    with pytest.raises(ArgumentTypeError):
        collate([torch.zeros(2)])


def test_conversion_of_single_samples():
    names = np.array(["a"])
    data = default_convert([names, np.zeros(2), (1, np.float32(2)), {"k": np.int64(3)}, range(2), "x", 2.0, Point(1, 2),
                            UserList([np.ones(1)])])
    assert data[0] is names
    assert data[1].dtype is torch.float64
    assert type(data[2]) is list
    assert data[2][1].item() == 2
    assert data[3]["k"].item() == 3
    assert data[4] == [0, 1]
    assert data[5:8] == ["x", 2.0, Point(1, 2)]
    assert data[8][0].tolist() == [1]
    same = torch.zeros(2)
    assert default_convert(same) is same


def test_pinning_reaches_everything_in_a_batch():
    class Graph:
        def __init__(self):
            self.pinned = []

        def pin_memory(self, device="any"):
            self.pinned.append(device)
            return self

    graph, tensor = Graph(), torch.ones(2)
    parts = pin_memory({"g": [graph], "t": (tensor, "x"), "p": Point(graph, 1)}, "opencl")
    assert graph.pinned == ["opencl", "opencl"]
    assert parts["t"][0].tolist() == [1, 1]
    assert parts["t"][1] == "x"
    assert isinstance(parts["p"], Point)
    pin_memory(graph)
    assert graph.pinned[2:] == ["any"]
