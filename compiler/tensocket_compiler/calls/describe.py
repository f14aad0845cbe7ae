"""Texts about a variant: guards, operators, groups, kernels and memory."""

from __future__ import annotations

from typing import Any

from tensocket_plugins.ir.text import format_program

from ..execute.runner import Runner
from ..schedule.groups import Group
from ..schedule.kernels import FusedKernel


def runners_of(variant: Any) -> list[tuple[str, Runner]]:
    """Return the graphs of a variant with what they compute; those of a program's backend are not among them."""
    if getattr(variant, "runner", None) is None:
        return []
    backward = [] if variant.backward is None else [("backward", variant.backward.runner)]
    return [("forward", variant.runner), *backward]


def group_bytes(group: Group, kernel: FusedKernel | None) -> int:
    """Return the bytes that a group reads and writes in memory."""
    regions = kernel.regions if kernel is not None else [
        x for operation in group.operations for x in (*operation.reads, *operation.results)]
    return sum({(x.buffer.number, x.offset): _nbytes(x) for x in regions}.values())


def _nbytes(region: Any) -> int:
    count = 1
    for size, stride in zip(region.shape, region.strides, strict=True):
        count *= size if stride else 1
    return int(count * region.dtype.itemsize)


def group_name(group: Group) -> str:
    """Return the operators of a group, in order."""
    return ", ".join(operation.name for operation in group.operations)


def describe_guards(variant: Any) -> str:
    """Return the paths of everything that must stay, one in a line."""
    paths = list(dict.fromkeys(variant.guards.paths))
    return "\n".join([f"{len(variant.guards.addresses)} words of {len(paths)} objects",
                      *[f"  {path}" for path in paths],
                      *[f"  {path}: {value!r:.80}" for path, value in variant.arguments.items]])


def describe_graph(variant: Any) -> str:
    """Return the recorded operators, one in a line; of a program's backend, the graph that it got."""
    if getattr(variant, "module", None) is not None:
        return str(variant.module.graph)
    return "\n".join(f"{title}:\n" + "\n".join(f"  {operation!r}" for operation in runner.recording.operations)
                     for title, runner in runners_of(variant))


def describe_runner(runner: Runner) -> str:
    """Return the steps of a graph as text, with their operators and the bytes that they move."""
    figures = runner.statistics
    lines = [f"{figures.operations} operators: {figures.kernels} kernels and {figures.calls} calls, {figures.tapes} "
             f"tapes and {figures.python} steps in Python, {figures.arena} bytes for {figures.temporaries} of "
             "temporaries"]
    for group, kernel in zip(runner.groups, runner.kernels, strict=True):
        kind = "call" if group.call else f"kernel over {list(group.shape)}"
        lines.append(f"  {kind}: {group_name(group)} ({group_bytes(group, kernel)} bytes)")
    return "\n".join(lines)


def describe_groups(variant: Any) -> str:
    """Return the steps of all graphs of a variant."""
    return "\n".join(f"{title}: {describe_runner(runner)}" for title, runner in runners_of(variant))


def kernels_of(variant: Any) -> list[tuple[str, str]]:
    """Return the fused kernels of a variant: a name made of their operators, and the text of the program."""
    return [("_".join(dict.fromkeys(operation.name for operation in group.operations)), format_program(kernel.program))
            for _, runner in runners_of(variant)
            for group, kernel in zip(runner.groups, runner.kernels, strict=True) if kernel is not None]


def describe_kernels(variant: Any) -> str:
    """Return the programs of all fused kernels."""
    return "\n".join(f"{name}:\n{text}" for name, text in kernels_of(variant))


def describe_memory(variant: Any) -> str:
    """Return the buffers of each graph: how large they are, and where temporaries lie."""
    lines = []
    for title, runner in runners_of(variant):
        figures = runner.statistics
        lines.append(f"{title}: an arena of {figures.arena} bytes for {figures.temporaries} of temporaries")
        used = {region.buffer for group in runner.groups for operation in group.operations
                for region in (*operation.reads, *operation.writes, *operation.results)}
        lines += [f"  {buffer!r}: {buffer.kind}, {buffer.nbytes} bytes"
                  for buffer in sorted(used, key=lambda x: x.number)]
    return "\n".join(lines)
