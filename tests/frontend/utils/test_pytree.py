"""Trees: structures, maps over several trees, paths, registration, and structures as text."""

from __future__ import annotations

import json
import time
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import pytest

import tensocket as torch
from tensocket.utils import _pytree as pytree
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, UnsupportedOperator

LEAF = pytree.treespec_leaf()


class Point(NamedTuple):
    x: Any
    y: Any


class Other(NamedTuple):
    x: Any
    y: Any


class Box:
    """A container without a registered order of its own."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second


class Colour(Enum):
    RED = 1


@dataclass
class Pair:
    left: Any
    right: Any = None


@dataclass(frozen=True)
class Setting:
    name: str


@pytest.fixture
def registered() -> Any:
    """Registers classes for a test."""
    classes: list[type] = []

    def register(cls: type, **keywords: Any) -> None:
        pytree.register_pytree_node(
            cls, lambda b: ([b.first, b.second], None), lambda parts, _: cls(*parts), **keywords
        )
        classes.append(cls)

    yield register
    for cls in classes:
        pytree._deregister_pytree_node(cls)


def test_structures_say_what_they_are_made_of() -> None:
    leaves, spec = pytree.tree_flatten((0, [0, 0, [0]]))
    assert leaves == [0, 0, 0, 0]
    assert repr(spec) == (
        "TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*,\n    *,\n    TreeSpec(list, None, [*])])])"
    )
    assert (spec.num_nodes, spec.num_leaves, spec.num_children) == (7, 4, 2)
    assert spec.child(0).is_leaf()
    assert not spec.is_leaf()
    assert spec.children()[1].type is list
    assert spec == pytree.treespec_tuple([LEAF, pytree.tree_structure([1, 2, [3]])])
    assert pytree.tree_structure({"b": 1, "a": 2}) == pytree.treespec_dict(b=LEAF, a=LEAF)
    assert pytree.tree_structure({"b": 1, "a": 2}).context == ["b", "a"]
    assert pytree.tree_structure(Point(1, 2)) == pytree.TreeSpec(namedtuple, Point, [LEAF, LEAF])
    assert pytree.tree_structure(()) != pytree.tree_structure([])
    assert spec != "spec"
    same = [pytree.tree_structure(tree) for tree in ({"a": 1}, OrderedDict(a=1), defaultdict(int, a=1), deque([1], 3))]
    assert len(set(same)) == 4
    assert len({*same, *same}) == 4
    assert pytree.treespec_pprint(pytree.tree_structure({"a": [1, (2,)]})) == "{'a': [*, (*,)]}"
    with pytest.warns(FutureWarning, match="deprecated"):
        assert pytree.LeafSpec() == LEAF


@pytest.mark.parametrize(
    "tree",
    [
        None,
        (),
        {},
        [1, (2, {"a": 3})],
        Point(1, [2]),
        OrderedDict(b=1, a=2),
        defaultdict(list, a=[1]),
        deque([1, 2], 5),
        torch.ones(3).reshape(1, 3).max(dim=0),
    ],
)
def test_trees_are_taken_apart_and_made(tree: Any) -> None:
    leaves, spec = pytree.tree_flatten(tree)
    made = pytree.tree_unflatten(leaves, spec)
    assert type(made) is type(tree)
    assert pytree.tree_leaves(made) == leaves == list(pytree.tree_iter(tree))
    assert [leaf for _, leaf in pytree.tree_leaves_with_path(tree)] == leaves
    assert pytree.tree_unflatten(spec, leaves) is not None or tree is None  # type: ignore[arg-type]
    assert getattr(made, "maxlen", None) == getattr(tree, "maxlen", None)
    assert getattr(made, "default_factory", None) is getattr(tree, "default_factory", None)


def test_further_trees_may_go_on_below_leaves() -> None:
    assert pytree.tree_map(lambda x, y: [x, *y], [5, 6], [[7, 9], [1, 2]]) == [[5, 7, 9], [6, 1, 2]]
    assert pytree.tree_map(lambda x, y: x - y, {"a": 5, "b": 7}, {"b": 1, "a": 2}) == {"a": 3, "b": 6}
    assert pytree.tree_map(lambda x, y: x - y, {"a": 5}, OrderedDict(a=2)) == {"a": 3}
    assert pytree.tree_map(lambda x, y: x + y, deque([1], 2), deque([2])) == deque([3])
    seen: list[tuple[int, int]] = []
    pytree.tree_map_(lambda x, y: seen.append((x, y)), (1, 2), (3, 4))
    assert seen == [(1, 3), (2, 4)]
    for tree, other, rule in [
        ((1,), [1], "Node type mismatch"),
        ([1], [1, 2], "Node arity mismatch"),
        ({"a": 1}, {"b": 1}, r"Node keys mismatch; missing key\(s\): {'a'}"),
        (Point(1, 2), Other(1, 2), "Node context mismatch"),
        ([[1]], [1], "Node type mismatch"),
    ]:
        with pytest.raises(ArgumentError, match=rule):
            pytree.tree_map(max, tree, other)


def test_prefixes_follow_keys_not_their_order() -> None:
    spec = pytree.tree_structure({"a": [1, 2], "b": 3})
    assert pytree._broadcast_to_and_flatten({"b": 0, "a": 1}, spec) == [1, 1, 0]
    assert pytree._broadcast_to_and_flatten({"a": 1}, spec) is None
    assert pytree._broadcast_to_and_flatten([1], LEAF) is None
    x, y = torch.arange(6.0).reshape(2, 3), torch.arange(3.0)
    summed = torch.vmap(lambda d: d["x"].sum() + d["y"], in_dims=({"y": 0, "x": 1},))({"x": x, "y": y})
    assert summed.tolist() == [3.0, 6.0, 9.0]


def test_maps_choose_leaves() -> None:
    assert pytree.tree_map_only(int | str, lambda x: 0, [1, "a", 2.0]) == [0, 0, 2.0]
    kept: list[int] = []
    tree = [1, [2.0]]
    assert pytree.tree_map_only_(int, kept.append, tree) is tree
    assert kept == [1]
    with pytest.raises(ArgumentTypeError, match="Argument must be a type, a tuple of types, or a callable"):
        pytree.tree_map_only(3, int, [])
    assert pytree.tree_is_leaf(None)
    assert not pytree.tree_is_leaf([])
    assert pytree.tree_is_leaf([], lambda x: True)


def test_paths_lead_to_leaves() -> None:
    tree = (["hello", [1, 2], {"foo": [3], "bar": [Point("baz", 10)]}],)
    pairs, spec = pytree.tree_flatten_with_path(tree)
    assert [f"{pytree.keystr(path)}: {leaf}" for path, leaf in pairs] == [
        "[0][0]: hello",
        "[0][1][0]: 1",
        "[0][1][1]: 2",
        "[0][2]['foo'][0]: 3",
        "[0][2]['bar'][0].x: baz",
        "[0][2]['bar'][0].y: 10",
    ]
    assert spec == pytree.tree_structure(tree)
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in pairs)
    assert pytree.tree_map_with_path(lambda path, x, y: path[0].idx + x + y, [10, 20], [1, 2]) == [11, 23]
    short = pytree.tree_leaves_with_path(tree, is_leaf=lambda x: isinstance(x, dict))
    assert short[-1] == ((pytree.SequenceKey(0), pytree.SequenceKey(2)), tree[0][2])


def test_registered_classes_are_containers(registered: Any) -> None:
    registered(Box)
    assert pytree.tree_leaves(pytree.tree_map(lambda n: n + 1, Box(1, [2]))) == [2, 3]
    with pytest.raises(ArgumentError, match="already registered"):
        registered(Box)
    with pytest.raises(ArgumentError, match="Did not find a flatten_with_keys_fn for it"):
        pytree.tree_leaves_with_path(Box(1, 2))
    with pytest.raises(UnsupportedOperator, match="No registered serialization name for it found"):
        pytree.treespec_dumps(pytree.tree_structure(Box(1, 2)))
    with pytest.warns(UserWarning, match="already registered"), pytest.warns(FutureWarning, match="deprecated"):
        pytree._register_pytree_node(
            Box, lambda b: ([b.second], b.first), lambda parts, first: Box(first, *parts), to_str_fn=str
        )
    assert pytree.tree_leaves(Box(1, 2)) == [2]
    with pytest.raises(
        ArgumentError, match="Both to_dumpable_context and from_dumpable_context are given, or neither is"
    ):
        pytree.register_pytree_node(Colour, lambda c: ([], c), lambda parts, c: c, to_dumpable_context=str)
    assert Colour not in pytree.SUPPORTED_NODES


def test_dataclasses_and_constants_are_containers() -> None:
    pytree.register_dataclass(Pair, serialized_type_name="tests.Pair")
    pytree.register_constant(Setting)
    try:
        assert pytree.tree_leaves(Pair(1)) == [1]
        assert pytree.tree_map(str, Pair(1)) == Pair("1")
        paths = [path for path, _ in pytree.tree_leaves_with_path([Pair(1, 2)])]
        assert list(map(pytree.keystr, paths)) == ["[0].left", "[0].right"]
        spec = pytree.tree_structure(Pair(1))
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
        leaves, spec = pytree.tree_flatten([Setting("a"), 1])
        assert leaves == [1]
        assert pytree.tree_unflatten([2], spec) == [Setting("a"), 2]
        assert pytree.is_constant_class(Setting)
        assert spec != pytree.tree_structure([Setting("b"), 1])
    finally:
        pytree._deregister_pytree_node(Pair)
        pytree._deregister_pytree_node(Setting)
    assert pytree.tree_leaves(Pair(1)) == [Pair(1)]
    assert not pytree.is_constant_class(Setting)
    with pytest.raises(
        ArgumentError, match="field_names must be specified with a list of all fields used to initialize it"
    ):
        pytree.register_dataclass(Box)
    with pytest.raises(ArgumentError, match="field_names does not include all dataclass fields, or unexpected ones"):
        pytree.register_dataclass(Pair, field_names=["left"])
    with pytest.raises(
        ArgumentTypeError, match="expects a class to have a non-default `__eq__` and `__hash__` implementation"
    ):
        pytree.register_constant(Box)


@pytest.mark.parametrize(
    "tree",
    [[], (), {}, [0, (1, [2])], {"a": 0, "b": {}}, OrderedDict(a=(0, 1)), defaultdict(list, a=[0]), deque([1], 2)],
)
def test_structures_are_written_and_read(tree: Any) -> None:
    spec = pytree.tree_structure(tree)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec, 1)) == spec


def test_texts_are_those_of_pytorch() -> None:
    text = pytree.treespec_dumps(pytree.tree_structure(OrderedDict([(1, (0, 1)), (2, 2)])))
    assert text == (
        '[1, {"type": "collections.OrderedDict", "context": "[1, 2]", "children_spec": [{"type": "builtins.tuple", '
        '"context": "null", "children_spec": [{"type": null, "context": null, "children_spec": []}, {"type": null, '
        '"context": null, "children_spec": []}]}, {"type": null, "context": null, "children_spec": []}]}]'
    )
    spec = pytree.tree_structure({Colour.RED: 1})
    assert json.loads(json.loads(pytree.treespec_dumps(spec))[1]["context"])[0]["name"] == "RED"
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_named_tuples_are_written_by_their_names(registered: Any) -> None:
    spec = pytree.tree_structure(Point(1, 2))
    with pytest.raises(UnsupportedOperator, match="a class of named tuples in a text has a name"):
        pytree.treespec_dumps(spec)
    pytree._register_namedtuple(Point, serialized_type_name="tests.Point")
    text = pytree.treespec_dumps(spec)
    assert pytree.treespec_loads(text) == spec
    assert "tests.Point" in text
    pytree._deregister_pytree_node(Point)
    pytree.treespec_loads.cache_clear()
    with pytest.raises(UnsupportedOperator, match="its class is registered first"):
        pytree.treespec_loads(text)
    registered(
        Box,
        serialized_type_name="tests.Box",
        to_dumpable_context=lambda context: "moo",
        from_dumpable_context=lambda text: None,
    )
    text = pytree.treespec_dumps(pytree.tree_structure(Box(1, 2)))
    assert "moo" in text
    assert pytree.treespec_loads(text) == pytree.tree_structure(Box(1, 2))


def test_texts_that_cannot_be_read_or_written() -> None:
    wrong: Any = "text"
    calls: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: pytree.treespec_dumps(wrong), ArgumentTypeError, "Expected `treespec` to be an instance of TreeSpec"),
        (lambda: pytree.treespec_dumps(LEAF, -1), ArgumentError, r"Unknown protocol -1 — Available protocols: \[1\]"),
        (lambda: pytree.treespec_loads("[7, null]"), ArgumentError, "Unknown protocol 7"),
        (
            lambda: pytree.treespec_dumps(pytree.tree_structure({1j: 1})),
            ArgumentTypeError,
            "Unable to serialize context: JSON does not express it",
        ),
        (
            lambda: pytree.treespec_loads('[1, {"type": "none", "context": "", "children_spec": []}]'),
            UnsupportedOperator,
            "Deserializing it in pytree is not registered",
        ),
        (lambda: pytree.TreeSpec(None, 1, []), ArgumentError, "a leaf has neither"),
        (
            lambda: pytree.tree_unflatten([], wrong),
            ArgumentTypeError,
            "Expected `treespec` to be an instance of TreeSpec",
        ),
    ]
    for call, error, rule in calls:
        with pytest.raises(error, match=rule):
            call()


def test_named_tuples_and_structure_sequences_are_told_apart() -> None:
    assert pytree.is_namedtuple(Point)
    assert pytree.is_namedtuple_instance(Point(1, 2))
    assert not pytree.is_namedtuple((1,))
    assert pytree.is_structseq(time.localtime())
    assert pytree.is_structseq_class(time.struct_time)
    assert not pytree.is_structseq_instance(Point(1, 2))
    assert not pytree.is_structseq_class(tuple)
    assert pytree.arg_tree_leaves(1, [2], x={"y": 3}) == [1, 2, 3]
