"""The modules of a model: their classes, the shapes of their results, their parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import tensocket as torch

from ...errors import ArgumentTypeError
from ...nn import Module
from ...profiler.events import memory_text
from .figures import ending_of, new_figure, write_figure

#: Number of letters of a module's name and class that fit into a picture.
_LABEL: Final = 64


@dataclass(slots=True)
class ModuleRow:
    """One module.

    Attributes:
        name: Name in its parent; empty for the model.
        kind: Its class.
        depth: Number of enclosing modules.
        parameters: Number of parameters in it and its children; shared ones are counted once.
        trainable: Number of those that require grad.
        shapes: Shapes of the tensors that its first call returned; empty if it was not called.
        calls: Number of its calls.
        lines: Lines of the tree to the left of it.
    """

    name: str
    kind: str
    depth: int
    parameters: int
    trainable: int
    shapes: list[list[int]] = field(default_factory=list)
    calls: int = 0
    lines: str = ""

    @property
    def label(self) -> str:
        """Name and class, with the lines of the tree."""
        return f"{self.lines}{self.name}: {self.kind}" if self.name else self.kind

    @property
    def shape(self) -> str:
        """Shapes as text, with the number of calls if it exceeds one."""
        times = f" x {self.calls}" if self.calls > 1 else ""
        return ", ".join(map(str, self.shapes)) + times if self.shapes else "-"


class ModuleSummary:
    """The tree of a model's modules; ``print`` shows it as a table.

    Attributes:
        rows: The modules, each before its children.
        total: Number of parameters.
        trainable: Number of those that require grad.
        nbytes: Their memory, and that of buffers.
    """

    def __init__(self, model: Module, rows: list[ModuleRow]) -> None:
        self.rows = rows
        parameters = list(model.parameters())
        self.total = sum(p.numel() for p in parameters)
        self.trainable = sum(p.numel() for p in parameters if p.requires_grad)
        self.nbytes = sum(t.numel() * t.element_size() for t in (*parameters, *model.buffers()))

    def _cells(self) -> list[tuple[str, str, str]]:
        return [("Module", "Output shape", "Parameters"),
                *((row.label, row.shape, f"{row.parameters:,}") for row in self.rows)]

    @property
    def _footer(self) -> str:
        return (f"{self.total:,} parameters, {self.trainable:,} of them trainable; "
                f"{memory_text(self.nbytes)} with buffers")

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[k]) for row in cells) for k in range(3)]
        lines = [f"{a.ljust(widths[0])}  {b.ljust(widths[1])}  {c.rjust(widths[2])}" for a, b, c in cells]
        rule = "-" * len(lines[0])
        return "\n".join([rule, lines[0], rule, *lines[1:], rule, self._footer])

    __repr__ = __str__

    def draw(self, path: Any = None) -> Any:
        """Draw the tree, with a bar for the parameters of each module.

        Args:
            path: File of the picture: ``.svg``, ``.png``, ``.pdf`` or ``.html``.

        Returns:
            The matplotlib figure.

        Raises:
            ArgumentError: The path has another extension.
            MissingPackage: matplotlib is not installed.
        """
        if path is not None:
            ending_of("summary", path)
        cells, count = self._cells(), len(self.rows)
        figure = new_figure("summary", 10, min(1.2 + 0.26 * count, 200))
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(count + 1, -1))
        most = max((row.parameters for row in self.rows), default=0) or 1
        for y, (label, shape, number) in enumerate(cells):
            weight = "bold" if y == 0 else "normal"
            label = label if len(label) <= _LABEL else label[:_LABEL - 3] + "..."
            for x, text, side in ((0.0, label, "left"), (0.48, shape, "left"), (0.8, number, "right")):
                axes.text(x, y, text, ha=side, va="center", family="monospace", fontsize=8, weight=weight)
        for y, row in enumerate(self.rows, 1):
            colour = "#6fa8dc" if row.trainable else "#cccccc"
            axes.barh(y, 0.19 * row.parameters / most, left=0.81, height=0.6, color=colour)
        axes.set_title(self._footer, fontsize=9)
        if path is not None:
            write_figure("summary", figure, path)
        return figure


def summary(model: Module, *inputs: Any, depth: int | None = None, path: Any = None, **keywords: Any) -> ModuleSummary:
    """Return the tree of a model's modules with their parameters and the shapes of their results.

    >>> from tensocket import nn
    >>> print(summary(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.ones(5, 2)))
    --------------------------------------
    Module        Output shape  Parameters
    --------------------------------------
    Sequential    [5, 3]                 9
    ├─ 0: Linear  [5, 3]                 9
    └─ 1: ReLU    [5, 3]                 0
    --------------------------------------
    9 parameters, 9 of them trainable; 36 B with buffers

    Args:
        model: The model; it is called once, in evaluation mode and without gradients, if there are inputs.
        inputs: The arguments to call it with; without them, the summary has no shapes.
        depth: Largest number of enclosing modules; deeper ones are omitted.
        path: File to draw it to; not drawn if not given.
        keywords: Keyword arguments of the call.

    Raises:
        ArgumentTypeError: The model is not a module.
        ArgumentError: The path is not that of a picture.
        MissingPackage: It is drawn, and matplotlib is not installed.
    """
    if not isinstance(model, Module):
        raise ArgumentTypeError("summary", f"an object of type {type(model).__name__}", "a module is summarised",
                                "pass a Module")
    calls = _called(model, inputs, keywords) if inputs or keywords else {}
    made = ModuleSummary(model, [row for row in _rows(model, calls) if depth is None or row.depth <= depth])
    if path is not None:
        made.draw(path)
    return made


def _rows(model: Module, calls: dict[int, tuple[list[list[int]], int]]) -> list[ModuleRow]:
    """Return the modules, each before its children."""
    rows: list[ModuleRow] = []

    def add(name: str, module: Module, above: str, last: bool, depth: int) -> None:
        parameters = list(module.parameters())
        shapes, count = calls.get(id(module), ([], 0))
        lines = above + ("└─ " if last else "├─ ") if depth else ""
        rows.append(ModuleRow(name, type(module).__name__, depth, sum(p.numel() for p in parameters),
                              sum(p.numel() for p in parameters if p.requires_grad), shapes, count, lines))
        children = list(module.named_children())
        inner = above + ("   " if last else "│  ") if depth else ""
        for k, (child, part) in enumerate(children):
            add(child, part, inner, k == len(children) - 1, depth + 1)

    add("", model, "", True, 0)
    return rows


def _called(model: Module, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> dict[int, tuple[list[list[int]], int]]:
    """Return, by module, the shapes that its first call returned and the number of its calls."""
    found: dict[int, tuple[list[list[int]], int]] = {}

    def note(module: Module, args: Any, output: Any) -> None:
        shapes, count = found.get(id(module), (_shapes(output), 0))
        found[id(module)] = shapes, count + 1

    modes = [(module, module.training) for module in model.modules()]
    handles = [module.register_forward_hook(note) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            model(*inputs, **keywords)
    finally:
        for handle in handles:
            handle.remove()
        for module, training in modes:
            module.training = training
    return found


def _shapes(value: Any) -> list[list[int]]:
    if isinstance(value, torch.Tensor):
        return [list(value.shape)]
    if isinstance(value, dict):
        value = tuple(value.values())
    return [shape for item in value for shape in _shapes(item)] if isinstance(value, (tuple, list)) else []
