"""A model in NumPy of tensors that share memory, with the derivatives of every element in the memory itself.

A tensor is a NumPy view of the positions of a buffer, so that NumPy decides which elements a view has, and which
strides. Beside each position stand its value and its derivatives by all elements of the leaves: what is written through
a view changes both, and whoever reads them through another view finds them, without a graph that could be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: Bytes of a position.
STEP = 8


@dataclass(eq=False)
class Buffer:
    """Memory of one tensor and its views.

    Attributes:
        values: One float for each position.
        tangents: Derivatives of each, by each element of the leaves.
        positions: 0, 1, 2 ...; tensors are views of it.
        tracked: Whether what it holds has a gradient.
        leaf: Whether it is that of a leaf that requires a gradient.
        version: Changes in place.
    """

    values: Array
    tangents: Array
    positions: Array = field(init=False)
    tracked: bool = False
    leaf: bool = False
    version: int = 0

    def __post_init__(self) -> None:
        self.positions = np.arange(len(self.values))


@dataclass(eq=False)
class Var:
    """A tensor of the model.

    Attributes:
        buffer: Its memory.
        places: Positions of its elements; of complex ones those of their real parts.
        is_complex: Whether an element is two positions.
        conjugate: Whether its elements are the conjugates of what the memory holds.
        detached: Whether it has no gradient although its memory has.
        fixed: Whether it is not modified while gradients are recorded.
        part: Whether it is one of several views that a function made, or a view of one.
        unrecorded: Whether it is a view made while no gradients were recorded, or a view of one: recorded changes are
            refused through it, and it is of no use after those of its memory.
    """

    buffer: Buffer
    places: Array
    is_complex: bool = False
    detached: bool = False
    fixed: bool = False
    part: bool = False
    unrecorded: bool = False
    conjugate: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return tuple(self.places.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return tuple(s // STEP // (2 if self.is_complex else 1) for s in self.places.strides)

    @property
    def tracked(self) -> bool:
        """Whether it requires a gradient."""
        return self.buffer.tracked and not self.detached

    @property
    def requires(self) -> bool:
        """Whether it requires a gradient, or is an unrecorded view of what does, which stays a leaf of its own."""
        return self.tracked or (self.detached and self.fixed)

    def value(self) -> Array:
        """A copy of the elements."""
        return self._read(self.buffer.values)

    def tangent(self) -> Array:
        """Derivatives of the elements, along a last dimension; zeros of a detached tensor."""
        found = self._read(self.buffer.tangents)
        return np.zeros_like(found) if self.detached else found

    def _read(self, store: Array) -> Array:
        if self.is_complex:
            found = np.asarray(store[self.places] + 1j * store[self.places + 1])
            return found.conj() if self.conjugate else found
        return np.array(store[self.places])

    def write(self, value: Any, tangent: Any, recorded: bool) -> None:
        """Elements and, where that is recorded, their derivatives."""
        self.buffer.version += 1
        self._store(self.buffer.values, np.broadcast_to(value, self.shape))
        if recorded:
            width = self.buffer.tangents.shape[1]
            self._store(self.buffer.tangents, np.broadcast_to(tangent, (*self.shape, width)))

    def _store(self, store: Array, given: Array) -> None:
        if self.is_complex:
            store[self.places], store[self.places + 1] = given.real, -given.imag if self.conjugate else given.imag
        else:
            store[self.places] = given.real

    # --------------------------------------------------------------------------------------------------- memory

    def is_repeated(self) -> bool:
        """Whether a dimension shows the same elements again."""
        return self.places.size > 0 and any(
            s == 0 and n > 1 for s, n in zip(self.places.strides, self.shape, strict=True))

    def is_ambiguous(self) -> bool:
        """Whether two elements share a position in another way."""
        return len(np.unique(self.places)) < self.places.size

    def covered(self) -> Array:
        """All positions of the elements, in order."""
        found = np.sort(self.places.ravel())
        return np.sort(np.concatenate([found, found + 1])) if self.is_complex else found

    def is_dense(self) -> bool:
        """Whether the elements fill a range of memory, each position once."""
        found = self.covered()
        return found.size > 0 and bool((np.diff(found) == 1).all())

    def overlap(self, other: Var) -> str:
        """How two tensors lie to each other: ``none``, ``all`` (element by element), ``part``, ``gaps`` (not told)."""
        if self.buffer is not other.buffer or not np.intersect1d(self.covered(), other.covered()).size:
            return "none"
        if not self.is_dense() or not other.is_dense():
            return "gaps"
        same = self.is_complex == other.is_complex and self.shape == other.shape and all(
            n == 1 or a == b for n, a, b in zip(self.shape, self.strides, other.strides, strict=True))
        return "all" if same and np.array_equal(self.places, other.places) else "part"

    # ---------------------------------------------------------------------------------------------------- views

    def view(self, places: Array, is_complex: bool | None = None) -> Var:
        """A tensor on the same memory."""
        kind = self.is_complex if is_complex is None else is_complex
        return Var(self.buffer, places, kind, self.detached, self.fixed, self.part, self.unrecorded,
                   self.conjugate and kind)

    def strided(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, is_complex: bool) -> Var:
        """Any geometry; strides and offset count positions from the first element."""
        first = int(self.places[(0,) * self.places.ndim])
        start = self.buffer.positions[first + offset:]
        return self.view(np.lib.stride_tricks.as_strided(start, shape, [s * STEP for s in strides]), is_complex)


def fresh(value: Any, tangent: Array, tracked: bool) -> Var:
    """A tensor with memory of its own, in row-major order."""
    value = np.asarray(value)
    is_complex = value.dtype.kind == "c"
    width = tangent.shape[-1]
    spread = np.broadcast_to(tangent, (*value.shape, width)).reshape(value.size, width)
    if is_complex:
        flat = value.reshape(-1)
        values = np.stack([flat.real, flat.imag], 1).reshape(-1)
        tangents = np.stack([spread.real, spread.imag], 1).reshape(2 * value.size, width)
    else:
        values, tangents = value.astype(float).reshape(-1).copy(), spread.real.copy()
    buffer = Buffer(values, tangents if tracked else np.zeros_like(tangents), tracked=tracked)
    places = buffer.positions[::2] if is_complex else buffer.positions
    return Var(buffer, places.reshape(value.shape), is_complex)
