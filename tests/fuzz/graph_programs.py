"""Random functions for ``compile``, as text: their lines run while they are drawn, so that every line is possible."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import tensocket as torch

from . import graph_lines
from .graph_lines import Rng, fill
from .values import contents

#: Most elements of a tensor, and the largest number; larger ones may be rounded in sums.
_ELEMENTS: Final = 700
_LARGEST: Final = {"torch.float16": 200.0, "torch.bfloat16": 50.0, "torch.float32": 3e4}
_SIZES: Final = (1, 2, 3, 4, 5, 7, 2, 3, 4, 6, 0, 33)
_LAYOUTS: Final = ("plain", "plain", "plain", "transposed", "step", "offset", "expanded")


def make(seed: int, shape: tuple[int, ...], dtype: str, layout: str = "plain", kind: str = "few", grad: bool = False,
         device: str = "cpu", below: int | None = None) -> Any:
    """Return a tensor of random numbers that lies in memory in one of several ways."""
    rng = np.random.default_rng(seed)
    if below is not None:
        array = rng.integers(0, max(below, 1), shape)
    else:
        array = contents(rng, shape, dtype, kind)
        array = np.clip(array, 0, None) if array.dtype == np.uint8 else array
    if not shape:
        layout = "plain"
    if layout == "transposed":
        array = array.T
    elif layout == "step":
        array = np.repeat(array, 2, -1)
    elif layout == "offset":
        array = np.concatenate([array, array])
    elif layout == "expanded":
        array = array[:1]
    tensor = torch.tensor(np.array(array, order="C").astype(np.float32 if dtype == "bfloat16" else array.dtype),
                          device=device, dtype=getattr(torch, dtype))
    if layout == "transposed":
        tensor = tensor.permute(*reversed(range(len(shape))))
    elif layout == "step":
        tensor = tensor[..., 1::2]
    elif layout == "offset":
        tensor = tensor[shape[0]:]
    elif layout == "expanded":
        tensor = tensor.expand(shape)
    tensor = tensor.detach()
    return tensor.requires_grad_() if grad and tensor.is_floating_point() else tensor


@dataclass(frozen=True)
class Leaf:
    """A tensor that a function gets, or that it captures.

    Attributes:
        name: Its name in the function.
        sizes: Its sizes by name.
        dtype: Its dtype.
        layout: How it lies in memory.
        grad: Whether it requires gradients.
        index: Whether it has indices, of up to the smallest size.
    """

    name: str
    sizes: tuple[str, ...]
    dtype: str
    layout: str = "plain"
    grad: bool = False
    index: bool = False


@dataclass
class Program:
    """A function as text, and its tensors.

    Attributes:
        arguments: The tensors that it gets.
        captured: The tensors that it captures.
        sizes: The sizes by name; the second ones for later calls.
        kind: Whether numbers are whole and sums exact, ``few``, or any, ``tame``.
        lines: The lines of the function, without the last.
        returned: The expression that it returns.
        device: Where it runs.
        bits: Whether no operator adds in an order of its own, so that results have the same bits.
        constant: A number that the function gets, too.
    """

    arguments: list[Leaf]
    captured: list[Leaf]
    sizes: tuple[dict[str, int], dict[str, int]]
    kind: str
    device: str
    lines: list[str] = field(default_factory=list)
    returned: str = "None"
    bits: bool = True
    constant: bool = False

    def shape(self, leaf: Leaf, which: int) -> tuple[int, ...]:
        """Return the shape of a leaf with the first or second sizes."""
        return tuple([self.sizes[which][name] for name in leaf.sizes])

    def made(self, leaf: Leaf, seed: int, which: int = 0, layout: str | None = None) -> Any:
        """Return the tensor of a leaf for a call."""
        sizes = [n for n in self.sizes[which].values() if n] or [1]
        return make(seed, self.shape(leaf, which), leaf.dtype, layout or leaf.layout, self.kind, leaf.grad, self.device,
                    min(sizes) if leaf.index else None)

    def text(self) -> str:
        """Return the function as text."""
        names = ", ".join([*[x.name for x in self.arguments], *(["number"] if self.constant else [])])
        return "\n    ".join([f"def f({names}):", *self.lines, f"return {self.returned}"]) + "\n"

    def script(self) -> str:
        """Return a runnable program that compares compiled with plain calls."""
        return (f"import tensocket as torch  # run with tests/ and tools/ on the path\n"
                f"from fuzz.graph_calls import difference_of\nfrom fuzz.graph_programs import Leaf, Program\n\n"
                f"program = Program({self.arguments!r},\n    {self.captured!r},\n    {self.sizes!r}, {self.kind!r}, "
                f"{self.device!r},\n    {self.lines!r},\n    {self.returned!r}, {self.bits}, {self.constant})\n\n"
                f"# The function, with its captured tensors as globals:\n"
                + "".join(f"# {line}\n" for line in self.text().splitlines())
                + "print(difference_of(program).found)\n")


def _leaves(rng: Rng, device: str) -> tuple[list[Leaf], list[Leaf], tuple[dict[str, int], dict[str, int]]]:
    names = "ABC"
    first = {n: int(rng.choice(_SIZES, p=_weights())) for n in names}
    second = {n: int(rng.choice(_SIZES, p=_weights())) for n in names}
    first["one"] = second["one"] = 1
    dtype = str(rng.choice(["float32", "float64"]))

    def leaf(name: str, rank: int, captured: bool) -> Leaf:
        sizes = tuple([str(rng.choice([*names, "one"], p=[0.32, 0.32, 0.28, 0.08])) for _ in range(rank)])
        draw = rng.random()
        own = dtype if draw < 0.7 else str(rng.choice(["int64", "bool", "int32", "float16", "bfloat16", "uint8",
                                                       "float64", "float32"]))
        if captured:
            own = dtype
        layout = str(rng.choice(_LAYOUTS)) if not captured or rng.random() < 0.2 else "plain"
        if layout == "expanded" and captured:
            layout = "plain"
        return Leaf(name, sizes, own, layout, bool(rng.random() < (0.35 if not captured else 0.7)))

    arguments = [leaf(name, int(rng.choice([0, 1, 2, 3], p=[0.1, 0.25, 0.5, 0.15])), False)
                 for name in "abc"[:int(rng.choice([1, 2, 3]))]]
    if rng.random() < 0.4:
        arguments.append(Leaf("index", (str(rng.choice(list(names))),), "int64", index=True))
    captured = [leaf(name, rank, True) for name, rank in (("P", 2), ("Q", 1)) if rng.random() < 0.4]
    if rng.random() < 0.3:
        captured.append(Leaf("B", leaf("B", int(rng.integers(0, 3)), True).sizes, dtype))
    for name in {name for x in captured for name in x.sizes}:
        second[name] = first[name]  # captured tensors keep their sizes
    return arguments, captured, (first, second)


def _weights() -> Any:
    weights = np.ones(len(_SIZES))
    weights[-2:] = 0.4
    return weights / weights.sum()


def draw_program(rng: Rng, device: str = "cpu") -> Program:
    """Draw a function."""
    arguments, captured, sizes = _leaves(rng, device)
    program = Program(arguments, captured, sizes, "few" if rng.random() < 0.6 else "tame", device)
    program.constant = bool(rng.random() < 0.15)
    groups: list[tuple[tuple[str, ...], float]] = [
        (graph_lines.POINTWISE, 4), (graph_lines.SUMS, 2), (graph_lines.MOVES, 2.5), (graph_lines.JOINS, 1),
        (graph_lines.CREATED, 0.5)]
    groups += [(graph_lines.CHANGES, 1.5)] if rng.random() < 0.5 else []
    groups += [(graph_lines.RANDOM, 0.6)] if rng.random() < 0.3 else []
    if program.kind == "tame":
        groups += [(graph_lines.SMOOTH, 2), (graph_lines.MEANS, 1.5)]
    bits_only = bool(rng.random() < 0.2)
    if bits_only:
        groups = [g for g in groups if g[0] not in (graph_lines.SUMS, graph_lines.MEANS)]
    program.bits = bits_only or program.kind == "few"
    _Drawing(rng, program).lines(groups, int(rng.integers(2, 16)))
    return program


class _Drawing:
    """A program while it is drawn: its lines so far have run.

    Attributes:
        scope: Everything that lines can name.
        values: The tensors among it.
    """

    def __init__(self, rng: Rng, program: Program) -> None:
        self.rng, self.program = rng, program
        self.values: dict[str, Any] = {}
        self.scope: dict[str, Any] = {}
        self._restart()

    def _restart(self) -> None:
        """Run all lines so far again: the last one may have changed tensors before it failed."""
        self.scope = {"torch": torch, "number": 2}
        self.values = {leaf.name: self.program.made(leaf, k)
                       for k, leaf in enumerate([*self.program.captured, *self.program.arguments])}
        self.scope |= self.values
        for line in self.program.lines:
            self._run(line)
        self.values |= {n: x for n, x in self.scope.items() if n.startswith("x") and isinstance(x, torch.Tensor)}

    def lines(self, groups: list[tuple[tuple[str, ...], float]], count: int) -> None:
        """Draw lines, and what the function returns."""
        weights = np.array([w for _, w in groups])
        for _ in range(count * 3):
            group = groups[int(self.rng.choice(len(groups), p=weights / weights.sum()))][0]
            template = str(self.rng.choice(group))
            self._line(template, group is graph_lines.CHANGES)
            if len(self.program.lines) >= count:
                break
        self._end()

    def _line(self, template: str, changes: bool) -> None:
        filled = fill(self.rng, template, self.values)
        if filled is None:
            return
        if self.program.constant and self.rng.random() < 0.2:
            filled = filled.replace(" 2", " number")
        name = f"x{len(self.program.lines)}"
        line = filled if changes else f"{name} = {filled}"
        if self.rng.random() < 0.08:
            line = f"with torch.no_grad(): {line}"
        if not self._run(line):
            if changes:
                self._restart()
            return
        if not changes:
            if not isinstance(self.scope[name], torch.Tensor):
                return
            self.values[name] = self.scope[name]
        self.program.lines.append(line)

    def _run(self, line: str) -> bool:
        """Run a line; whether it is possible, and its result neither large nor long."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                exec(line, self.scope)
            return all(self._is_small(x) for x in self.scope.values() if isinstance(x, torch.Tensor))
        except Exception:
            return False

    def _is_small(self, tensor: Any) -> bool:
        if tensor.numel() > _ELEMENTS:
            return False
        if not tensor.numel() or tensor.dtype == torch.bool:
            return True
        largest = float(tensor.detach().double().abs().max())
        return largest <= _LARGEST.get(str(tensor.dtype), 1e6)

    def _end(self) -> None:
        program, rng = self.program, self.rng
        made = [n for n in self.values if n.startswith("x")] or [program.arguments[0].name]
        floats = [n for n in made if self.values[n].requires_grad]
        leaves = [x.name for x in (*program.captured, *program.arguments) if x.grad and self.values[x.name].is_leaf]
        draw = rng.random()
        if floats and leaves and draw < 0.3:
            self._training(floats, leaves)
        chosen = [str(n) for n in rng.choice(made, min(len(made), int(rng.integers(1, 4))), replace=False)]
        if rng.random() < 0.08:
            chosen.append(program.arguments[0].name)
        if rng.random() < 0.06:
            chosen.append(f"{chosen[0]}.shape[0] if {chosen[0]}.dim() else 0")
        forms = ("({})", "[{}]", "{{'r': ({})}}") if len(chosen) > 1 else ("{}", "{}", "({},)", "[{}]")
        program.returned = str(rng.choice(forms)).format(", ".join(chosen))

    def _training(self, floats: list[str], leaves: list[str]) -> None:
        """Add a backward pass inside of the function."""
        rng, lines = self.rng, self.program.lines
        terms = [str(n) for n in rng.choice(floats, min(len(floats), 2), replace=False)]
        loss = " + ".join(f"{n}.sum()" for n in terms)
        if rng.random() < 0.4:
            leaf = str(rng.choice(leaves))
            line = f"x99, = torch.autograd.grad({loss}, [{leaf}], allow_unused=True, materialize_grads=True)"
            added = [line]
        else:
            steps = [f"with torch.no_grad(): {n}.sub_({n}.grad, alpha=0.5)" for n in leaves
                     if n in "PQ" and rng.random() < 0.5]
            clear = [f"{n}.grad = None" for n in leaves] if rng.random() < 0.7 else []
            added = [*clear, f"({loss}).backward()", *steps]
        done = []
        for line in added:
            if not self._run(line):
                break
            done.append(line)
        lines += done
        if done and done[0].startswith("x99"):
            self.values["x99"] = self.scope["x99"]
