"""Pictures of compiled graphs: kernels and calls in layers, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from tensocket.utils.viz.layout import places
from tensocket_compiler.calls.describe import group_bytes, group_name, runners_of
from tensocket_compiler.execute.runner import Runner

#: Colours by kind of node.
_COLOURS: Final = {"kernel": "#dbe9f6", "call": "#fff2cc", "placeholder": "#d9ead3", "output": "#f4cccc"}
_WIDTH, _HEIGHT, _GAP, _MARGIN = 230, 44, 46, 16
#: Longest label, in characters.
_LABEL: Final = 34
Drawing = tuple[list[tuple[str, str, str]], list[tuple[int, int]]]


def draw(variant: Any) -> str:
    """Return the SVG picture of a variant: its groups, or the nodes of the graph that a backend got.

    Groups of the backward pass stand below those of the forward pass, whose values they read.
    """
    drawings = [_groups(title, runner) for title, runner in runners_of(variant)]
    if not drawings and variant.module is not None:
        drawings = [_nodes(variant.module.graph)]
    parts, top, width = [], float(_MARGIN), 2.0 * _MARGIN
    for nodes, edges in drawings:
        text, right, bottom = _layers(nodes, edges, top)
        parts.append(text)
        width, top = max(width, right), bottom + _GAP
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top - _GAP + _MARGIN:.0f}" '
            'font-family="sans-serif" font-size="11">')
    arrow = ('<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
             'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>')
    return "\n".join([head, arrow, *parts, "</svg>"])


def _groups(title: str, runner: Runner) -> Drawing:
    """Return the groups of a graph as nodes, and their dependencies by memory as edges."""
    nodes = []
    edges: dict[tuple[int, int], None] = {}
    writers: dict[int, int] = {}
    for k, (group, kernel) in enumerate(zip(runner.groups, runner.kernels, strict=True)):
        kind = "call" if group.call else "kernel"
        note = f"{title} {kind}, {group_bytes(group, kernel)} bytes" + ("" if group.call else f", {list(group.shape)}")
        nodes.append((group_name(group), note, kind))
        for operation in group.operations:
            for region in (*operation.reads, *operation.number_reads):
                source = writers.get(region.buffer.number, k)
                if source != k:
                    edges[source, k] = None
        for operation in group.operations:
            for region in (*operation.results, *operation.writes):
                writers[region.buffer.number] = k
    return nodes, list(edges)


def _nodes(graph: Any) -> Drawing:
    """Return the nodes of an fx graph."""
    numbers = {node: k for k, node in enumerate(graph.nodes)}
    nodes = [(node.name, node.op, node.op if node.op in _COLOURS else "kernel") for node in graph.nodes]
    return nodes, [(numbers[source], k) for node, k in numbers.items() for source in node.all_input_nodes]


def _layers(nodes: Sequence[tuple[str, str, str]], edges: Sequence[tuple[int, int]], top: float
            ) -> tuple[str, float, float]:
    """Return the picture of one graph, with its right and lower edge; inputs are at the top."""
    found = places(len(nodes), edges)
    last = max((layer for _, layer in found), default=0)
    left = min((x for x, _ in found), default=0.0)
    at = [(_MARGIN + (x - left) * (_WIDTH + _MARGIN), top + (last - layer) * (_HEIGHT + _GAP)) for x, layer in found]
    lines = []
    for source, target in edges:
        (a, b), (c, d) = at[source], at[target]
        a, b, c = a + _WIDTH / 2, b + _HEIGHT, c + _WIDTH / 2
        bend = _GAP / 2
        lines.append(f'<path d="M{a:.0f} {b:.0f}C{a:.0f} {b + bend:.0f} {c:.0f} {d - bend:.0f} {c:.0f} {d:.0f}" '
                     'fill="none" stroke="#666" marker-end="url(#arrow)"/>')
    for (label, note, kind), (x, y) in zip(nodes, at, strict=True):
        short = label if len(label) <= _LABEL else label[:_LABEL - 1] + "…"
        lines.append(f'<g><title>{escape(label)}</title><rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" '
                     f'height="{_HEIGHT}" rx="4" fill="{_COLOURS[kind]}" stroke="#666"/>'
                     f'<text x="{x + _WIDTH / 2:.0f}" y="{y + 18:.0f}" text-anchor="middle">{escape(short)}</text>'
                     f'<text x="{x + _WIDTH / 2:.0f}" y="{y + 34:.0f}" text-anchor="middle" fill="#555">'
                     f'{escape(note)}</text></g>')
    return "\n".join(lines), max((x for x, _ in at), default=0) + _WIDTH + _MARGIN, top + last * (
        _HEIGHT + _GAP) + _HEIGHT
