"""The computation graph of a loss: the nodes that a backward pass visits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...errors import ArgumentError
from .figures import ending_of, new_figure, write_figure
from .layout import Edge, places

#: Colours by kind.
_COLOURS: Final = {"operator": "#dbe9f6", "parameter": "#d9ead3", "leaf": "#fff2cc", "result": "#f4cccc"}


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the graph.

    Attributes:
        label: Name of the operator or tensor.
        kind: ``operator``, ``parameter`` (a leaf with a name), ``leaf`` or ``result``.
        shape: Shape of the tensor, or of the operator's result; None if it has several results.
    """

    label: str
    kind: str
    shape: tuple[int, ...] | None

    def __str__(self) -> str:
        return self.label if self.shape is None else f"{self.label} {list(self.shape)}"


class ComputationGraph:
    """The operators and leaves from which a tensor was computed.

    Attributes:
        nodes: The nodes; the tensor itself comes first.
        edges: Pairs of positions in ``nodes``, from an operand to the operator that used it.
    """

    def __init__(self, nodes: list[Node], edges: list[Edge]) -> None:
        self.nodes = nodes
        self.edges = edges

    def __str__(self) -> str:
        used: dict[int, list[str]] = {}
        for source, target in self.edges:
            used.setdefault(target, []).append(f"%{source}")
        return "\n".join(f"%{k} = {node}" + (f" of {', '.join(used[k])}" if k in used else "")
                         for k, node in enumerate(self.nodes))

    def draw(self, path: Any = None) -> Any:
        """Draw the graph, with the leaves at the top.

        Args:
            path: File of the picture: ``.svg``, ``.png``, ``.pdf`` or ``.html``.

        Returns:
            The matplotlib figure.

        Raises:
            ArgumentError: The path has another extension.
            MissingPackage: matplotlib is not installed.
        """
        if path is not None:
            ending_of("computation_graph", path)
        placed = places(len(self.nodes), self.edges)
        width = max(x for x, _ in placed) - min(x for x, _ in placed) + 1
        height = max(layer for _, layer in placed) + 1
        figure = new_figure("computation_graph", min(1 + 1.9 * width, 100), min(1 + 0.8 * height, 200))
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set(xlim=(min(x for x, _ in placed) - 0.6, max(x for x, _ in placed) + 0.6), ylim=(-0.6, height - 0.4))
        for source, target in self.edges:
            self._arrow(axes, placed[source], placed[target])
        for node, (x, y) in zip(self.nodes, placed, strict=True):
            text = node.label if node.shape is None else f"{node.label}\n{list(node.shape)}"
            axes.text(x, y, text, ha="center", va="center", fontsize=7, zorder=3,
                      bbox={"boxstyle": "round,pad=0.35", "facecolor": _COLOURS[node.kind], "edgecolor": "#666666"})
        if path is not None:
            write_figure("computation_graph", figure, path)
        return figure

    @staticmethod
    def _arrow(axes: Any, start: tuple[float, int], end: tuple[float, int]) -> None:
        # Edges over several layers are curved, so that they avoid the nodes in between.
        bend = 0.0 if start[1] - end[1] == 1 else 0.25
        axes.annotate("", xy=end, xytext=start, zorder=1,
                      arrowprops={"arrowstyle": "-|>", "color": "#888888", "shrinkA": 14, "shrinkB": 14,
                                  "connectionstyle": f"arc3,rad={bend}"})


def _names(parameters: Any) -> dict[int, str]:
    if parameters is None:
        return {}
    if hasattr(parameters, "named_parameters"):
        parameters = parameters.named_parameters()
    pairs: Iterable[tuple[str, Any]] = parameters.items() if isinstance(parameters, Mapping) else parameters
    return {id(tensor): name for name, tensor in pairs}


def computation_graph(loss: Any, parameters: Any = None, path: Any = None) -> ComputationGraph:
    """Return the graph of the computation of a tensor.

    >>> import tensocket as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> print(computation_graph((x * 3).sum(), {"x": x}))
    %0 = result []
    %1 = Sum [] of %2
    %2 = Mul [2] of %3
    %3 = x [2]

    Args:
        loss: The tensor.
        parameters: Names of leaves: a module, a dict, or pairs of names and tensors.
        path: File to draw it to; not drawn if not given.

    Raises:
        ArgumentError: The tensor has no graph, or the path is not that of a picture.
        MissingPackage: It is drawn, and matplotlib is not installed.
    """
    if getattr(loss, "grad_fn", None) is None:
        raise ArgumentError("computation_graph", f"a tensor of shape {list(loss.shape)} without grad_fn",
                            "the tensor was computed from one that requires grad", "pass the loss before backward()")
    names, nodes = _names(parameters), [Node("result", "result", tuple(loss.shape))]
    # A dict preserves the order and finds an edge in constant time.
    edges: dict[Edge, None] = {}
    known: dict[int, int] = {}
    # Nodes are kept alive, so that their ids are not reused.
    kept: list[Any] = []
    waiting = [(loss.grad_fn, 0)]
    while waiting:
        function, user = waiting.pop()
        variable = getattr(function, "variable", None)
        identity = id(function if variable is None else variable)
        kept.append(function)
        if identity not in known:
            known[identity] = len(nodes)
            nodes.append(_node(function, variable, names))
            waiting += [(other, known[identity]) for other, _ in reversed(function.next_functions) if other is not None]
        edges[known[identity], user] = None
    graph = ComputationGraph(nodes, list(edges))
    if path is not None:
        graph.draw(path)
    return graph


def _node(function: Any, variable: Any, names: dict[int, str]) -> Node:
    if variable is not None:
        name = names.get(id(variable))
        return Node(name or "leaf", "parameter" if name else "leaf", tuple(variable.shape))
    shape = getattr(function, "shape", None)
    return Node(function.name().partition("Backward")[0] or function.name(), "operator",
                None if shape is None else tuple(shape))
