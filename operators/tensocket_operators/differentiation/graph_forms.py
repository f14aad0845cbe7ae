"""Graphs behind losses, by their form: all that rules of a backward pass depend on, except for contents of tensors.

The *form* is the rules, shapes and dtypes, how nodes are connected, saved values other than tensors, and the order
in which the engine visits the nodes. ``Graph`` finds it in some microseconds; ``form_plan`` describes one form for
machine code, which tells in a fraction of one whether a graph has it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

from tensocket_core.autograd.node import MultiNode, Node, Output
from tensocket_core.keys import AUTOGRAD, LAZY, OPTIONS, WRAPPER
from tensocket_core.launch.arguments import frozen
from tensocket_core.launch.replay import ELEMENTS
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract import plans

#: Most nodes of a graph.
_NODES: Final = 256
#: The number of the output of a target that is a leaf.
LEAF: Final = -1
_WRAPPED: Final = LAZY | WRAPPER
_PLAIN: Final = AUTOGRAD | _WRAPPED
_NO_SHAPES: Final = itertools.repeat(False)
#: Types whose equal values are identical; ``frozen`` compares others.
_EXACT: Final = frozenset({bool, str})


class UnfitGraph(Exception):
    """The engine has to run passes through this graph."""


class Graph:
    """The nodes behind some losses, in an order that depends on the graph's form alone.

    Walking costs as much as the launches, so that the constructor is one function.

    Attributes:
        nodes: The nodes.
        leaves: The leaves.
        operands: The losses, and then the saved tensors.
        words: The form: numbers for edges and operands, and values.

    Args:
        losses: Tensors with a graph.
        wanted: Identities of the leaves that receive gradients; None for all of them.

    Raises:
        UnfitGraph: See the module.
    """

    __slots__ = ("_places", "leaves", "nodes", "operands", "words")

    def __init__(self, losses: Sequence[Any], wanted: set[int] | None) -> None:
        places = self._places = dict[int, int]()  # by identity
        nodes = self.nodes = list[Any]()
        leaves = self.leaves = list[Any]()
        self.operands: list[Any] = []
        words = self.words = list[Any]()
        edges: Iterable[Any] = [loss._grad_fn for loss in losses]
        values: Sequence[Any] = losses
        versions: Iterable[int] = [loss._version for loss in losses]
        shapes: Iterable[bool] = _NO_SHAPES
        done = 0
        while True:
            for value, version, is_shape in zip(values, versions, shapes, strict=False):
                if is_shape:
                    words.append(value)
                elif version >= 0:
                    place = places.get(id(value))
                    if place is None:
                        place = self._add_operand(value)
                    counter = value._version_counter
                    if counter is not None and counter[0] != version:
                        raise UnfitGraph
                    words.append(place)
                elif version != -1:
                    raise UnfitGraph
                elif value is None or type(value) in _EXACT:
                    words.append(value)
                elif _is_list_of_tensors(value):
                    words.append(tuple([self._add_operand(tensor) for tensor in value]))
                else:
                    words.append(frozen(_fixed(value)))
            for edge in edges:
                if edge is None:
                    words.append(None)
                    continue
                kind = type(edge)
                index = 0
                if kind is Output:
                    edge, index = edge.node, edge.index
                    kind = type(edge)
                place = places.get(~id(edge))
                if place is None:
                    place = places[~id(edge)] = len(nodes) + len(leaves)
                    if kind is Node or kind is MultiNode:
                        if edge.extras is not None or edge.saved is None or len(nodes) == _NODES:
                            raise UnfitGraph
                        nodes.append(edge)
                    elif isinstance(edge, Tensor) and edge._key & _PLAIN == AUTOGRAD and edge._extras is None and (
                            edge._base is None and (wanted is None or id(edge) in wanted)):
                        leaves.append(edge)
                        words.append(edge._array.shape)
                        words.append(edge._key & OPTIONS)
                    else:
                        raise UnfitGraph
                words.append(place << 8 | index)
            if done == len(nodes):
                break
            node = nodes[done]
            done += 1
            values, versions, edges = node.saved, node.versions, node.edges
            derivative = node.derivative
            shapes = derivative.saves_shapes
            if type(node) is MultiNode:
                words += derivative, node.outputs
            else:
                words += derivative, node.shape, node.options
        if done > 2 or len(losses) > 1:  # the engine visits the newest node first
            sequences = [node.sequence for node in nodes]
            words += sorted(range(done), key=sequences.__getitem__, reverse=True)

    def _add_operand(self, tensor: Any) -> int:
        """Return the place of a tensor among the operands."""
        place = self._places.get(id(tensor))
        if place is None:
            key = tensor._key
            if key & _WRAPPED or tensor._array.size > ELEMENTS:
                raise UnfitGraph
            place = self._places[id(tensor)] = len(self.operands)
            self.operands.append(tensor)
            self.words.append(key & OPTIONS)
        return place

    def target(self, edge: Any) -> tuple[int, int]:
        """Return the place of an edge's node and the number of its output, or the place of a leaf and -1."""
        if isinstance(edge, Tensor):
            return next(k for k, leaf in enumerate(self.leaves) if leaf is edge), LEAF
        node, index = (edge.node, edge.index) if type(edge) is Output else (edge, 0)
        return next(k for k, known in enumerate(self.nodes) if known is node), index

    def operand(self, tensor: Any) -> int:
        """Return the place of a loss or saved tensor."""
        return self._places[id(tensor)]

    def saved(self, node: Any) -> list[Callable[[Sequence[Any]], Any]]:
        """Return a function for each saved value of a node, which returns it for some operands."""
        return [self._pick(value, version) for value, version in zip(node.saved, node.versions, strict=True)]

    def _pick(self, value: Any, version: int) -> Callable[[Sequence[Any]], Any]:
        if version >= 0:
            return itemgetter(self.operand(value))
        if _is_list_of_tensors(value):
            places = [self.operand(tensor) for tensor in value]
            return lambda operands: tuple([operands[place] for place in places])
        own = _fixed(value)
        return lambda operands: own


def _fixed(value: Any) -> Any:
    """Return a value with tuples in the place of lists, which may change."""
    return tuple(map(_fixed, value)) if type(value) in (list, tuple) else value


def _is_list_of_tensors(value: Any) -> bool:
    return type(value) is tuple and bool(value) and isinstance(value[0], Tensor)


class _FormSteps:
    """The steps that tell whether a graph has the form of another one.

    The numbers of objects: losses, the leaves that receive gradients (a tuple; None for all), nodes, leaves, operands,
    and then tuples.

    Args:
        graph: A graph of the form.
        losses: Its losses, which are operands as well.
        captures: Whether the leaves are those of a tuple.
    """

    def __init__(self, graph: Graph, losses: Sequence[Any], captures: bool) -> None:
        self._graph, self._captures = graph, captures
        self._wanted = len(losses)
        self._nodes = self._wanted + 1
        self._leaves = self._nodes + len(graph.nodes)
        self._operands = self._leaves + len(graph.leaves)
        self._tuples = self._operands + len(graph.operands)
        # By identity: nodes and leaves; operands, some of which are leaves as well.
        self._numbers: dict[int, int] = {}
        self._operand_numbers = {id(loss): k for k, loss in enumerate(losses)}
        self.steps: list[plans.FormStep] = []
        for k, loss in enumerate(losses):
            self._add_edge(k, (Tensor, "_grad_fn"), loss._grad_fn)
        for node in graph.nodes:
            self._add_node(node)
        order = sorted(graph.nodes, key=lambda node: -node.sequence)
        for newer, older in itertools.pairwise(order):
            self._add(plans.FormTest.LARGER, self._numbers[id(newer)], (Node, "sequence"), self._numbers[id(older)])
        #: The numbers of objects.
        self.operands = [self._operand_numbers[id(x)] for x in graph.operands]
        self.leaves = [self._numbers[id(x)] for x in graph.leaves]
        self.freed = [self._numbers[id(x)] for x in graph.nodes if x.saved and x.derivative.frees]

    def _add(self, test: plans.FormTest, source: int, place: Any, value: Any, **numbers: Any) -> None:
        self.steps.append(plans.FormStep(test, source, place, value, **numbers))

    def _add_tuple(self, source: int, place: Any, count: int) -> int:
        """Test for a tuple, and return its number."""
        number = self._tuples
        self._tuples += 1
        self._add(plans.FormTest.LENGTH, source, place, count, number=number)
        return number

    def _add_object(self, numbers: dict[int, int], source: int, place: Any, item: Any, number: int, first: int) -> bool:
        """Test for an object; return whether it is new."""
        known = numbers.get(id(item))
        if known is not None:
            self._add(plans.FormTest.KNOWN, source, place, known)
            return False
        numbers[id(item)] = number
        self._add(plans.FormTest.KIND, source, place, type(item), number=number, first=first)
        return True

    def _add_edge(self, source: int, place: Any, edge: Any) -> None:
        if edge is None:
            self._add(plans.FormTest.SAME, source, place, None)
        elif isinstance(edge, Tensor):
            number = self._leaves + self._graph.target(edge)[0]
            if self._add_object(self._numbers, source, place, edge, number, self._leaves):
                self._add_leaf(number, edge)
        elif type(edge) is Output:
            number = self._tuples
            self._tuples += 1
            self._add(plans.FormTest.KIND, source, place, Output, number=number, first=number)
            self._add_edge(number, (Output, "node"), edge.node)
            self._add(plans.FormTest.EQUAL, number, (Output, "index"), edge.index)
        else:
            number = self._nodes + self._graph.target(edge)[0]
            self._add_object(self._numbers, source, place, edge, number, self._nodes)

    def _add_leaf(self, own: int, leaf: Any) -> None:
        self._add(plans.FormTest.EQUAL, own, (Tensor, "_key"), leaf._key)
        self._add(plans.FormTest.SAME, own, (Tensor, "_base"), None)
        self._add(plans.FormTest.SHAPE, own, (Tensor, "_array"), leaf._array.shape)
        self._add(plans.FormTest.UNMARKED, own, (Tensor, "_key"), "_extras")
        if self._captures:
            self._add(plans.FormTest.MEMBER, own, (Tensor, "_key"), self._wanted)

    def _add_node(self, node: Any) -> None:
        own = self._numbers[id(node)]
        self._add(plans.FormTest.SAME, own, (Node, "derivative"), node.derivative)
        self._add(plans.FormTest.SAME, own, (Node, "extras"), None)
        if type(node) is MultiNode:
            self._add_outputs(own, node.outputs)
        else:
            self._add(plans.FormTest.EQUAL, own, (Node, "shape"), node.shape)
            self._add(plans.FormTest.EQUAL, own, (Node, "options"), node.options)
        saved = self._add_tuple(own, (Node, "saved"), len(node.saved))
        versions = self._add_tuple(own, (Node, "versions"), len(node.saved))
        for k, (value, version) in enumerate(zip(node.saved, node.versions, strict=True)):
            if version >= 0:
                self._add_operand(saved, k, value)
                number = self._operand_numbers[id(value)]
                self._add(plans.FormTest.VERSION, versions, k, number, other=(Tensor, "_version_counter"))
            else:
                self._add(plans.FormTest.EQUAL, versions, k, version)
                self._add_value(saved, k, value)
        edges = self._add_tuple(own, (Node, "edges"), len(node.edges))
        for k, edge in enumerate(node.edges):
            self._add_edge(edges, k, edge)

    def _add_outputs(self, node: int, outputs: tuple[Any, ...]) -> None:
        table = self._add_tuple(node, (MultiNode, "outputs"), len(outputs))
        for k, output in enumerate(outputs):
            if output is None:
                self._add(plans.FormTest.SAME, table, k, None)
                continue
            pair = self._add_tuple(table, k, len(output))
            for number, value in enumerate(output):
                self._add(plans.FormTest.EQUAL, pair, number, value)

    def _add_operand(self, source: int, place: int, tensor: Any) -> None:
        number = self._operands + self._graph.operand(tensor)
        if self._add_object(self._operand_numbers, source, place, tensor, number, number):
            self._add(plans.FormTest.EQUAL, number, (Tensor, "_key"), tensor._key)

    def _add_value(self, source: int, place: int, value: Any) -> None:
        if _is_list_of_tensors(value):
            items = self._add_tuple(source, place, len(value))
            for k, tensor in enumerate(value):
                self._add_operand(items, k, tensor)
            return
        is_plain = type(value) in (int, float) or (type(value) is tuple and all(type(x) is int for x in value))
        self._add(plans.FormTest.EQUAL if is_plain else plans.FormTest.SAME, source, place, value)


def form_plan(graph: Graph, losses: Sequence[Any], captures: bool) -> tuple[plans.FormPlan, int, int]:
    """Describe the form of a graph for machine code.

    Returns:
        The plan of ``match(*losses, wanted)``, where ``wanted`` is a tuple of the leaves that receive gradients or None
        for all. Its results are the operands, the leaves, and the nodes whose saved tensors a pass frees. Behind it the
        numbers of operands and of leaves.
    """
    form = _FormSteps(graph, losses, captures)
    results = (*form.operands, *form.leaves, *form.freed)
    return plans.FormPlan(len(losses) + 1, tuple(form.steps), results), len(form.operands), len(form.leaves)
