"""Random programs of differentiable operators, with an interpreter in NumPy and finite differences.

A program is a list of steps over slots; it may branch, write in place through views, detach and turn recording off.
The interpreter knows no derivative: it runs the same steps on NumPy arrays, whose views alias as tensors' do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import assume, reject
from hypothesis import strategies as st

import tensocket_operators as torch

#: Elements, and their size, that a step may grow to.
MOST, LARGEST = 48, 6.0
#: Distance below which no piece of a function is chosen.
CLOSE = 1e-3

SHAPES = [(2, 3), (3,), (3, 2), (), (2, 1), (1, 2, 3), (2, 2, 2), (3, 1), (1,)]

Array = np.ndarray
Fix = Callable[[Any], Any]
Pair = tuple[Callable[..., Any], Callable[..., Any]]


@dataclass(frozen=True)
class Step:
    """``slots[inputs]`` and parameters to new slots; quiet ones run without recording."""

    name: str
    inputs: tuple[int, ...]
    params: tuple[Any, ...] = ()
    quiet: bool = False


# ------------------------------------------------------------------------------------------------- what steps compute


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def run(fix: Fix, x: Array, axes: Any, keep: bool) -> Any:
        return (x * fix(x == choose(x, axes, keepdims=True))).sum(axes, keepdims=keep)

    return run


def _softmax(fix: Fix, x: Array, axis: int) -> Any:
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def _scatter_add(fix: Fix, x: Array, source: Array, axis: int, index: Array) -> Any:
    result = x.copy()
    for place in np.ndindex(index.shape):
        target = [*place]
        target[axis] = index[place]
        result[tuple(target)] += source[place]
    return result


def _windows(fix: Fix, x: Array, axis: int, size: int, step: int) -> Array:
    whole = np.lib.stride_tricks.sliding_window_view(x, size, axis, writeable=True)
    return whole[(slice(None),) * axis + (slice(None, None, step),)]


def _strided(fix: Fix, x: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    return np.lib.stride_tricks.as_strided(x, shape, [s * x.itemsize for s in strides])


def _split(fix: Fix, x: Array, sizes: Sequence[int], axis: int) -> tuple[Array, ...]:
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def _unbind(fix: Fix, x: Array, axis: int) -> tuple[Array, ...]:
    return tuple(np.moveaxis(x, axis, 0)[k, ...] for k in range(x.shape[axis]))


def _write(target: Array, value: Any, index: Any = ...) -> tuple[()]:
    target[index] = value
    return ()


def _assign(x: Any, index: Any, value: Any) -> None:
    x[index] = value


def _places(index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(torch.tensor(i) if isinstance(i, np.ndarray) else i for i in index)


def both(**functions: Callable[..., Any]) -> dict[str, Pair]:
    """Steps that are written alike for arrays and tensors."""
    return {name: (lambda fix, *args, f=f: f(*args), f) for name, f in functions.items()}


#: By name: what a step does to arrays, and to tensors. ``fix`` keeps what no small change of a leaf may change.
SMOOTH: dict[str, Pair] = {
    f.__name__: (lambda fix, x, f=f: f(x), getattr(torch.Tensor, f.__name__))
    for f in (np.sin, np.cos, np.tanh, np.arctan, np.square)
} | both(neg=lambda x: -x, cube=lambda x: x**3, scaled=lambda x: x * -0.7, turned=lambda x: 1.25 - x) | {
    "sigmoid": (lambda fix, x: 1 / (1 + np.exp(-x)), lambda x: x.sigmoid()),
    "exp": (lambda fix, x: np.exp(x / 4), lambda x: (x / 4).exp()),
    "log": (lambda fix, x: np.log(x * x + 1), lambda x: (x * x + 1).log()),
    "rsqrt": (lambda fix, x: 1 / np.sqrt(x * x + 1), lambda x: (x.square() + 1).rsqrt()),
    "own": (lambda fix, x: x.copy("C"), lambda x: x.clone(memory_format=torch.contiguous_format)),
}
PIECES: dict[str, Pair] = {
    "relu": (lambda fix, x: x * fix(x > 0), lambda x: x.relu()),
    "abs": (lambda fix, x: x * fix(np.sign(x)), lambda x: x.abs()),
    "positive": (lambda fix, x: np.where(fix(x > 0), x * 2, -0.5), lambda x: torch.where(x > 0, x * 2, -0.5)),
    "filled": (lambda fix, x: np.where(fix(x < 0), 0.3, x), lambda x: x.masked_fill(x < 0, 0.3)),
}
BINARY: dict[str, Pair] = both(
    add=lambda x, y: x + y, sub=lambda x, y: x - y, mul=lambda x, y: x * y, ratio=lambda x, y: x / (y * y + 1),
    power=lambda x, y: (x * x + 0.5) ** (y / 4),
) | {
    "logaddexp": (lambda fix, x, y: np.logaddexp(x, y), torch.logaddexp),
    "lerp": (lambda fix, x, y: x + 0.3 * (y - x), lambda x, y: x.lerp(y, 0.3)),
    "addcmul": (lambda fix, x, y: x + 0.5 * x * y, lambda x, y: x.addcmul(x, y, value=0.5)),
    "chosen": (lambda fix, x, y: np.where(fix(x > y), x, y), torch.maximum),
    "where": (lambda fix, x, y: np.where(fix(x > y), y, x * 2), lambda x, y: torch.where(x > y, y, x * 2)),
}
REDUCED: dict[str, Pair] = {
    "sum": (lambda fix, x, axes, keep: x.sum(axes, keepdims=keep), lambda x, a, k: x.sum(a, keepdim=k)),
    "mean": (lambda fix, x, axes, keep: x.mean(axes, keepdims=keep), lambda x, a, k: x.mean(a, keepdim=k)),
    "var": (lambda fix, x, axes, keep: x.var(axes, keepdims=keep), lambda x, a, k: x.var(a, correction=0, keepdim=k)),
    "logsumexp": (lambda fix, x, axes, keep: np.log(np.exp(x).sum(axes, keepdims=keep)),
                  lambda x, a, k: x.logsumexp(a, keepdim=k)),
    "amax": (_extreme(np.amax), lambda x, a, k: x.amax(a, keepdim=k)),
    "amin": (_extreme(np.amin), lambda x, a, k: x.amin(a, keepdim=k)),
}
ALONG: dict[str, Pair] = {
    "softmax": (_softmax, lambda x, d: x.softmax(d)),
    "log_softmax": (lambda fix, x, d: np.log(_softmax(fix, x, d)), lambda x, d: x.log_softmax(d)),
    "flip": (lambda fix, x, d: np.flip(x, d).copy(), lambda x, d: x.flip(d)),
} | both(cumsum=lambda x, d: x.cumsum(d), cumprod=lambda x, d: x.cumprod(d), prod=lambda x, d: x.prod(d))
VIEWS: dict[str, Pair] = {
    "permute": (lambda fix, x, order: x.transpose(order), lambda x, order: x.permute(order)),
    "reshape": (lambda fix, x, shape: x.reshape(shape), lambda x, shape: x.reshape(shape)),
    "expand": (lambda fix, x, shape: np.broadcast_to(x, shape), lambda x, shape: x.expand(shape)),
    "part": (lambda fix, x, index: x[(*index, ...)], lambda x, index: x[index]),
    "strided": (_strided, lambda x, shape, strides: x.as_strided(shape, strides)),
    "unfold": (_windows, lambda x, axis, size, step: x.unfold(axis, size, step)),
    "unsqueeze": (lambda fix, x, axis: np.expand_dims(x, axis), lambda x, axis: x.unsqueeze(axis)),
    "diagonal": (lambda fix, x: np.diagonal(x, 0, -2, -1), lambda x: x.diagonal(0, -2, -1)),
    "detach": (lambda fix, x: fix(x), lambda x: x.detach()),
    "split": (_split, lambda x, sizes, axis: x.split(list(sizes), axis)),
    "unbind": (_unbind, lambda x, axis: x.unbind(axis)),
}
JOINED: dict[str, Pair] = {
    "taken": (lambda fix, x, index: x[(*index, ...)], lambda x, index: x[_places(index)]),
    "index_select": (lambda fix, x, d, i: x.take(i, d), lambda x, d, i: x.index_select(d, torch.tensor(i))),
    "gather": (lambda fix, x, d, i: np.take_along_axis(x, i, d), lambda x, d, i: x.gather(d, torch.tensor(i))),
    "scatter_add": (_scatter_add, lambda x, y, d, i: x.scatter_add(d, torch.tensor(i), y)),
    "gram": (lambda fix, x: x @ x.swapaxes(-1, -2), lambda x: x @ x.mT),
    "matmul": (lambda fix, x, y: x @ y, torch.matmul),
    "cat": (lambda fix, x, y, d: np.concatenate((x, y, x), d), lambda x, y, d: torch.cat((x, y, x), d)),
    "stack": (lambda fix, x, y, d: np.stack((x, y), d), lambda x, y, d: torch.stack((x, y), d)),
}
#: They write to their first input and make no slot.
INPLACE: dict[str, Pair] = {
    "add_": (lambda fix, x, y: _write(x, x + y), lambda x, y: x.add_(y)),
    "sub_": (lambda fix, x, y: _write(x, x - 2 * y), lambda x, y: x.sub_(y, alpha=2)),
    "mul_": (lambda fix, x, y: _write(x, x * y), lambda x, y: x.mul_(y)),
    "copy_": (lambda fix, x, y: _write(x, np.array(y)), lambda x, y: x.copy_(y)),
    "tanh_": (lambda fix, x: _write(x, np.tanh(x)), lambda x: x.tanh_()),
    "square_": (lambda fix, x: _write(x, x * x / 2), lambda x: x.square_().div_(2)),
    "fill_": (lambda fix, x: _write(x, 0.4), lambda x: x.fill_(0.4)),
    "part_": (lambda fix, x, y, index: _write(x, np.array(y), (*index, ...)), lambda x, y, index: _assign(x, index, y)),
    "masked_fill_": (lambda fix, x: _write(x, np.where(fix(x > 0), x, -0.6)), lambda x: x.masked_fill_(x <= 0, -0.6)),
}
STEPS = SMOOTH | PIECES | BINARY | REDUCED | ALONG | VIEWS | JOINED | INPLACE
#: Steps that keep no value of their inputs or results, so that these may change before the pass back.
KEEPS_NOTHING = {
    *VIEWS, "add", "sub", "neg", "scaled", "turned", "own", "lerp", "sum", "mean", "cumsum", "flip", "cat", "stack",
    "taken", "index_select", "gather", "scatter_add", "add_", "sub_", "copy_", "fill_", "part_"}


@dataclass
class Machine:
    """The interpreter. The first run notes what steps fix; runs on changed leaves are given these notes."""

    slots: list[Array]
    notes: list[Array] | None = None
    made: list[Array] = field(default_factory=list)

    def fix(self, value: Any) -> Any:
        if self.notes is not None:
            value = self.notes[len(self.made)]
        self.made.append(np.array(value))
        return self.made[-1] if self.notes is not None else value

    def run(self, step: Step) -> None:
        found = STEPS[step.name][0](self.fix, *[self.slots[i] for i in step.inputs], *step.params)
        several = found if isinstance(found, tuple) else (np.asarray(found),)
        self.slots.extend([self.fix(value) if step.quiet else value for value in several])


@dataclass
class Program:
    """Steps, the slots that are results, and whether values that a gradient needs may be gone."""

    leaves: list[Array]
    steps: list[Step]
    outputs: list[int]
    risky: bool = False

    def arrays(self, leaves: Sequence[Array], notes: list[Array] | None = None) -> tuple[list[Array], list[Array]]:
        """Results by NumPy, and notes."""
        machine = Machine([np.array(leaf) for leaf in leaves], notes)
        for step in self.steps:
            machine.run(step)
        return [machine.slots[i] for i in self.outputs], machine.made

    def weights(self) -> list[Array]:
        found, _ = self.arrays(self.leaves)
        return [np.cos(np.arange(1.0, y.size + 1) * (k + 1)).reshape(y.shape) for k, y in enumerate(found)]

    def value(self) -> Callable[[Sequence[Array]], float]:
        """The loss by NumPy as a function of the leaves, with what is fixed at the program's own ones."""
        weights, notes = self.weights(), self.arrays(self.leaves)[1]
        return lambda leaves: float(sum((y * w).sum()
                                        for y, w in zip(self.arrays(leaves, notes)[0], weights, strict=True)))

    def tensors(self, *leaves: Any) -> list[Any]:
        """Results by the library."""
        slots = list(leaves)
        for step in self.steps:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not step.quiet):
                found = STEPS[step.name][1](*[slots[i] for i in step.inputs], *step.params)
            if step.name not in INPLACE:
                slots.extend(found if isinstance(found, (tuple, list)) else (found,))
        return [slots[i] for i in self.outputs]

    def loss(self, *leaves: Any) -> Any:
        return sum((y * torch.tensor(w)).sum() for y, w in zip(self.tensors(*leaves), self.weights(), strict=True))


# -------------------------------------------------------------------------------------------------- drawing programs


def memory(x: Array) -> int:
    """Return a number that identifies the memory of an array and of its views."""
    while getattr(x, "base", None) is not None:  # also through the objects that as_strided puts between
        x = x.base
    return id(x)


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def writable(x: Array) -> bool:
    """Whether elements have memory of their own."""
    places = np.zeros(x.shape, int)
    for axis, (n, stride) in enumerate(zip(x.shape, x.strides, strict=True)):
        places = places + (np.arange(n) * stride).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    return np.unique(places).size == x.size and x.flags.writeable


class Builder:
    """Draws steps, running them at once: shapes and values decide what may come next."""

    def __init__(self, data: Any, writes: bool, quiet: bool) -> None:
        self.data, self.writes, self.quiet = data, writes, quiet
        self.leaves = [self.leaf(self.one_of(SHAPES), k) for k in range(self.number(1, 3))]
        self.machine = Machine([leaf.copy() for leaf in self.leaves])
        self.slots = self.machine.slots
        self.steps: list[Step] = []
        self.risky = False
        #: Memory that is not written: leaves, what detached tensors share, what views may or may not share.
        self.barred = {memory(x) for x in self.slots}
        #: Memory with values that a step keeps for its gradient.
        self.replayable: set[int] = set()

    def leaf(self, shape: tuple[int, ...], k: int) -> Array:
        n = int(np.prod(shape))
        ticks = self.data.draw(st.lists(st.integers(-7, 7), min_size=n, max_size=n))
        return (np.array(ticks, float) / 5 + 0.017 * np.arange(1, n + 1) + 0.0031 * k).reshape(shape)

    def pick(self) -> int:
        """A slot; late ones more often."""
        back = min(self.number(0, 9), self.number(0, 9), len(self.slots) - 1)
        return len(self.slots) - 1 - back

    def number(self, low: int, high: int) -> int:
        return int(self.data.draw(st.integers(low, high)))

    def one_of(self, values: Any) -> Any:
        return self.data.draw(st.sampled_from(list(values)))

    def emit(self, name: str, *inputs: int, params: tuple[Any, ...] = ()) -> int:
        quiet = self.quiet and name not in INPLACE and self.number(0, 14) == 14
        step = Step(name, inputs, params, quiet)
        touched = {memory(self.slots[i]) for i in inputs}
        if name in INPLACE and memory(self.slots[inputs[0]]) in self.replayable:
            self.risky = True
        before = len(self.slots)
        self.machine.run(step)
        self.steps.append(step)
        touched |= {memory(x) for x in self.slots[before:]}
        if name not in KEEPS_NOTHING:
            self.replayable |= touched
        # Whether a reshaped tensor of any strides is a view is the library's business.
        if quiet or name in ("detach", "split", "unbind", "diagonal", "expand") or (
                name in ("reshape", "permute") and not self.slots[inputs[0]].flags.c_contiguous):
            self.barred |= touched
        assume(all(np.isfinite(x).all() and np.abs(x).max(initial=0) < 100 for x in self.slots))
        for k in range(before, len(self.slots)):
            if np.abs(self.slots[k]).max(initial=0) > LARGEST:
                self.emit("tanh", k)
        return before

    # ------------------------------------------------------------------------------------------ one step each

    def smooth(self) -> None:
        self.emit(self.one_of(SMOOTH), self.pick())

    def pieces(self) -> None:
        i = self.pick()
        if np.abs(self.slots[i]).min(initial=1) > CLOSE:
            self.emit(self.one_of(PIECES), i)

    def binary(self) -> None:
        name, i = self.one_of(BINARY), self.pick()
        x = self.slots[i]
        fitting = [k for k, y in enumerate(self.slots) if broadcasts(y.shape, x.shape) or broadcasts(x.shape, y.shape)]
        j = self.one_of(fitting)
        if name not in ("chosen", "where") or np.abs(x - self.slots[j]).min(initial=1) > CLOSE:
            self.emit(name, *((i, j) if self.number(0, 1) else (j, i)))

    def reduced(self) -> None:
        i = self.pick()
        x, name = self.slots[i], self.one_of(REDUCED)
        if x.ndim == 0:
            self.emit("mean", i, params=(None, False))
            return
        axes = tuple(sorted(self.data.draw(st.sets(st.integers(0, x.ndim - 1), min_size=1))))
        if name in ("amax", "amin"):
            rows = np.moveaxis(x, axes, range(len(axes))).reshape(-1, *np.delete(x.shape, axes))
            if np.diff(np.sort(rows, 0), axis=0).min(initial=1) < CLOSE:
                name = "sum"
        self.emit(name, i, params=(tuple(k - x.ndim * self.number(0, 1) for k in axes), bool(self.number(0, 1))))

    def along(self) -> None:
        i = self.pick()
        if self.slots[i].ndim:
            self.emit(self.one_of(ALONG), i, params=(self.number(-self.slots[i].ndim, self.slots[i].ndim - 1),))

    def view(self) -> None:
        i, name = self.pick(), self.one_of(VIEWS)
        x = self.slots[i]
        if name == "permute":
            self.emit(name, i, params=(tuple(self.data.draw(st.permutations(range(x.ndim)))),))
        elif name == "reshape":
            flat = x.ndim < 2 or self.number(0, 1)
            self.emit(name, i, params=((-1,) if flat else (x.shape[0] * x.shape[1], *x.shape[2:]),))
        elif name == "expand" and x.size * 2 <= MOST and x.ndim < 3:
            self.emit(name, i, params=((2, *x.shape),))
        elif name == "unsqueeze" and x.ndim < 3:
            self.emit(name, i, params=(self.number(-x.ndim - 1, x.ndim),))
        elif (name == "diagonal" and x.ndim >= 2) or (name == "detach" and self.quiet):
            self.emit(name, i)
        elif name == "strided":
            # Rows that overlap or leave gaps, of memory of its own.
            i, width, step, gap, count = (self.emit("own", i), self.number(1, 3), self.number(0, 2), self.number(1, 2),
                                          self.number(1, 3))
            if (count - 1) * step + (width - 1) * gap < x.size:
                self.emit("strided", i, params=((count, width), (step, gap)))
        elif x.ndim:
            self.cut(i, name)

    def cut(self, i: int, name: str) -> None:
        x = self.slots[i]
        axis = self.number(0, x.ndim - 1)
        n = x.shape[axis]
        if name == "part":
            self.emit(name, i, params=(self.part(x),))
        elif name == "unfold" and x.ndim < 3:
            self.emit(name, i, params=(axis, self.number(1, n), self.number(1, 2)))
        elif name == "unbind":
            self.emit(name, i, params=(axis,))
        elif name == "split":
            first = self.number(1, n)
            self.emit(name, i, params=((first, n - first) if first < n else (n,), axis))

    def part(self, x: Array) -> tuple[Any, ...]:
        """A basic index."""
        return tuple([
            self.number(-n, n - 1) if self.number(0, 2) == 0 else slice(self.number(0, n - 1), None, self.number(1, 2))
            for n in x.shape[:self.number(1, x.ndim)]])

    def places(self, n: int, low: int) -> Array:
        """An index of one dimension."""
        return np.array(self.data.draw(st.lists(st.integers(low, n - 1), min_size=2, max_size=2)))

    def joined(self) -> None:
        i, name = self.pick(), self.one_of(JOINED)
        x = self.slots[i]
        if x.ndim == 0 or x.size * 2 > MOST:
            return
        axis = self.number(0, x.ndim - 1)
        n = x.shape[axis]
        like = self.one_of([j for j, y in enumerate(self.slots) if y.shape == x.shape])
        if name == "taken":
            several = tuple([self.places(m, -m) for m in x.shape[:self.number(1, x.ndim)]])
            self.emit(name, i, params=(self.one_of([several, (slice(None),) * axis + (self.places(n, -n),)]),))
        elif name == "index_select":
            self.emit(name, i, params=(axis, self.places(n, 0)))
        elif name in ("gather", "scatter_add"):
            index = self.data.draw(st.lists(st.integers(0, n - 1), min_size=x.size, max_size=x.size))
            others = (like,) if name == "scatter_add" else ()
            self.emit(name, i, *others, params=(axis, np.array(index).reshape(x.shape)))
        elif name == "gram" and x.ndim >= 2:
            self.emit(name, i)
        elif name == "matmul":
            fitting = [j for j, y in enumerate(self.slots) if 0 < y.ndim < 3 and y.shape[0] == x.shape[-1]]
            if fitting:
                self.emit(name, i, self.one_of(fitting))
        elif name in ("cat", "stack") and x.ndim + (name == "stack") <= 3:
            self.emit(name, i, like, params=(axis,))

    def write(self) -> None:
        """In place, on memory that may be written; where there is none, it is made."""
        free = [k for k, x in enumerate(self.slots) if memory(x) not in self.barred and writable(x)]
        if not self.writes or not free:
            self.emit("own", self.pick())
            return
        i, name = self.one_of(reversed(free)), self.one_of(INPLACE)
        x = self.slots[i]
        if name in ("tanh_", "square_", "fill_") or (name == "masked_fill_" and np.abs(x).min(initial=1) > CLOSE):
            self.emit(name, i)
        elif name == "part_" and x.ndim:
            index = self.part(x)
            self.emit(name, i, self.fitting(x[(*index, ...)].shape), params=(index,))
        elif name in ("add_", "sub_", "mul_", "copy_"):
            self.emit(name, i, self.fitting(x.shape))

    def fitting(self, shape: tuple[int, ...]) -> int:
        """A slot that broadcasts to a shape, made where there is none."""
        found = [j for j, y in enumerate(self.slots) if broadcasts(y.shape, shape)]
        return int(self.one_of(found)) if found else self.emit("sum", self.pick(), params=(None, False))


def draw_program(data: Any, writes: bool = True, quiet: bool = True) -> Program:
    """A program of up to a dozen drawn steps."""
    builder = Builder(data, writes, quiet)
    kinds = [builder.smooth, builder.pieces, builder.binary, builder.binary, builder.reduced, builder.along,
             builder.view, builder.view, builder.view, builder.joined, builder.write, builder.write]
    for _ in range(builder.number(5, 14)):
        builder.one_of(kinds)()
    outputs = sorted({len(builder.slots) - 1, builder.pick(), builder.pick()})
    return Program(builder.leaves, builder.steps, outputs, builder.risky)


# ------------------------------------------------------------------------------------------------- finite differences


def differences(value: Callable[[list[Array]], float], at: list[Array], step: float,
                trusted: float) -> tuple[list[Array], float]:
    """The slope of ``value`` in every element of every leaf, by central differences of fourth order, and its error.

    ``trusted`` is the relative error up to which programs are of use.
    """
    found, worst = [np.zeros(leaf.shape) for leaf in at], 0.0
    for k, leaf in enumerate(at):
        for place in np.ndindex(leaf.shape):
            coarse, fine = [_slope(value, at, k, place, h) for h in (step, step / 2)]
            found[k][place] = (4 * fine - coarse) / 3
            worst = max(worst, abs(fine - coarse))
    size = max([1.0, *[np.abs(slopes).max(initial=0) for slopes in found]])
    if worst >= trusted * size:
        reject()
    return found, trusted * size * 1e-4 + worst / 2


def _slope(value: Callable[[list[Array]], float], at: list[Array], k: int, place: tuple[int, ...], h: float) -> float:
    ends = []
    for sign in (1, -1):
        moved = [*at[:k], at[k].copy(), *at[k + 1:]]
        moved[k][place] += sign * h
        ends.append(value(moved))
    return (ends[0] - ends[1]) / (2 * h)


def gradients(program: Program) -> tuple[list[Array], float]:
    """Of the loss by the leaves, and the error."""
    return differences(program.value(), program.leaves, 1e-4, 1e-4)


def directions(program: Program) -> list[Array]:
    return [np.sin(np.arange(1.0, leaf.size + 1) + k).reshape(leaf.shape) for k, leaf in enumerate(program.leaves)]


def curvatures(program: Program) -> tuple[list[Array], float]:
    """The Hessian of the loss times the direction, and the error."""
    value, along, h = program.value(), directions(program), 1e-3

    def slope(leaves: list[Array]) -> float:
        ends = [value([x + s * h * d for x, d in zip(leaves, along, strict=True)]) for s in (1, -1, 0.5, -0.5)]
        return (8 * (ends[2] - ends[3]) - (ends[0] - ends[1])) / (6 * h)

    return differences(slope, program.leaves, h, 1e-2)
