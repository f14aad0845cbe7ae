"""Positions for the nodes of an acyclic graph: in layers, with few crossing edges (K. Sugiyama et al., 1981)."""

from __future__ import annotations

from collections.abc import Sequence

Edge = tuple[int, int]
#: Number of sweeps over the layers; more sweeps change little.
_SWEEPS = 8


def layers_of(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return each node's layer: the length of the longest path from it to a node without successors."""
    consumers: list[list[int]] = [[] for _ in range(count)]
    producers: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        consumers[source].append(target)
        producers[target].append(source)
    waiting = [len(found) for found in consumers]
    layer = [0] * count
    ready = [node for node in range(count) if not waiting[node]]
    while ready:
        node = ready.pop()
        for producer in producers[node]:
            layer[producer] = max(layer[producer], layer[node] + 1)
            waiting[producer] -= 1
            if not waiting[producer]:
                ready.append(producer)
    return layer


def places(count: int, edges: Sequence[Edge]) -> list[tuple[float, int]]:
    """Return each node's horizontal position (around 0) and its layer, 0 for nodes without successors.

    Sweeps up and down order the nodes of a layer by the mean position of their neighbours.
    """
    layer = layers_of(count, edges)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for node in range(count):
        rows[layer[node]].append(node)
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        neighbours[source].append(target)
        neighbours[target].append(source)
    across = [0.0] * count
    for row in rows:
        _spread(row, across)
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            below = sweep % 2 == 0
            means = {node: _mean(node, neighbours, layer, across, below) for node in row}
            row.sort(key=means.__getitem__)
            _spread(row, across)
    return list(zip(across, layer, strict=True))


def _mean(node: int, neighbours: list[list[int]], layer: list[int], across: list[float], below: bool) -> float:
    seen = [across[other] for other in neighbours[node] if (layer[other] < layer[node]) == below]
    return sum(seen) / len(seen) if seen else across[node]


def _spread(row: list[int], across: list[float]) -> None:
    for k, node in enumerate(row):
        across[node] = k - (len(row) - 1) / 2
