"""Sobol sequences: points that fill a cube more evenly than random ones."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

import tensocket
from tensocket_operators.optional import require
from tensocket_plugins.contract.errors import ArgumentError

_MAX_BITS: Final = 30
_MAX_DIMENSION: Final = 21201


class SobolEngine:
    """Points of a Sobol sequence (I. M. Sobol, 1967), with the direction numbers of S. Joe and F. Kuo (criterion D6).

    Args:
        dimension: Dimension of the points, at most ``MAXDIM``.
        scramble: Whether the points are scrambled by random triangular matrices and a random shift (A. B. Owen, 1998).
        seed: Seed of the scrambling, compatible with PyTorch's; if not given, the default generator is used.

    Attributes:
        sobolstate: Direction numbers, shape ``(dimension, MAXBIT)``.
        shift: The shift of all points, shape ``(dimension,)``.
        num_generated: Number of points that were drawn.

    Raises:
        ArgumentError: Direction numbers for the dimension do not exist.
    """

    MAXBIT: ClassVar[int] = _MAX_BITS
    MAXDIM: ClassVar[int] = _MAX_DIMENSION

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ArgumentError("SobolEngine", f"dimension {dimension}",
                                f"a dimension lies between 1 and {_MAX_DIMENSION}", "use fewer dimensions")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        directions = _direction_numbers(dimension)
        shift = np.zeros(dimension, np.int64)
        if scramble:
            directions, shift = _scrambled(directions, _bits(dimension, seed))
        self.sobolstate = tensocket.from_numpy(directions)
        self.shift = tensocket.from_numpy(shift)

    @property
    def quasi(self) -> Any:
        """The last point that was drawn, times ``2 ** MAXBIT``; the shift before the first one."""
        return tensocket.from_numpy(self._points(max(0, self.num_generated - 1), 1)[0])

    def _points(self, first: int, count: int) -> NDArray[np.int64]:
        """Return points from number ``first`` on, times ``2 ** MAXBIT``.

        Raises:
            ArgumentError: The sequence has fewer points.
        """
        if first + count > 1 << self.MAXBIT:
            raise ArgumentError("SobolEngine", f"{first + count} points", f"a sequence has {1 << _MAX_BITS} points",
                                "draw fewer points")
        numbers = np.arange(first, first + count, dtype=np.int64)[:, None]
        gray = numbers ^ (numbers >> 1)  # neighbours differ in one bit
        points = np.repeat(self.shift.numpy()[None], count, axis=0)
        directions = self.sobolstate.numpy()
        for bit in range(int(gray.max(initial=0)).bit_length()):
            points ^= (gray >> bit & 1) * directions[:, bit]
        return points

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """Return the next ``n`` points, of shape ``(n, dimension)``.

        Args:
            n: Number of points.
            out: A tensor to write them to, which gets their shape.
            dtype: Dtype of the points; the default dtype if not given.

        Raises:
            ArgumentError: The sequence has fewer points.
        """
        points = tensocket.from_numpy(self._points(self.num_generated, n) / (1 << self.MAXBIT))
        points = points.to(tensocket.get_default_dtype() if dtype is None else dtype)
        self.num_generated += n
        return points if out is None else out.resize_as_(points).copy_(points)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """Return the next ``2 ** m`` points; all points together stay balanced.

        Raises:
            ArgumentError: The total number of points would not be a power of two.
        """
        total = self.num_generated + (1 << m)
        if total & (total - 1):
            raise ArgumentError("draw_base2", f"{1 << m} points after {self.num_generated}",
                                "the balance of the points requires that their number is a power of two",
                                "use draw instead")
        return self.draw(1 << m, out, dtype)

    def reset(self) -> SobolEngine:
        """Restart with the first point."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip ``n`` points."""
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _direction_numbers(dimension: int) -> NDArray[np.int64]:
    """Return direction numbers from SciPy, shape ``(dimension, MAXBIT)``, the first one in the highest bit."""
    qmc = require("scipy.stats.qmc", "SobolEngine")
    sequence: Any = qmc.Sobol(dimension, scramble=False, bits=_MAX_BITS)
    return np.asarray(sequence._sv, np.int64).reshape(dimension, _MAX_BITS)


def _bits(dimension: int, seed: int | None) -> NDArray[np.int64]:
    """Return random bits: for each dimension those of the shift, then for each those of a matrix."""
    count = dimension * _MAX_BITS * (1 + _MAX_BITS)
    if seed is None:
        drawn: NDArray[np.int64] = tensocket.randint(2, (count,), device="cpu").numpy()
        return drawn
    # PyTorch's generator, so that equal seeds scramble equally.
    words = np.random.RandomState(seed & 0xFFFFFFFF).randint(0, 1 << 32, count, np.uint32)
    return (words & 1).astype(np.int64)


def _scrambled(directions: NDArray[np.int64], bits: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return direction numbers, multiplied by lower triangular matrices over GF(2), and a shift."""
    dimension = directions.shape[0]
    ends = 1 << np.arange(_MAX_BITS, dtype=np.int64)
    shift = bits[:dimension * _MAX_BITS].reshape(dimension, _MAX_BITS) @ ends
    matrices = np.tril(bits[dimension * _MAX_BITS:].reshape(dimension, _MAX_BITS, _MAX_BITS))
    places = np.arange(_MAX_BITS)
    matrices[:, places, places] = 1
    digits = directions[:, None, :] >> places[::-1, None] & 1  # of each number, the highest bit first
    return (matrices @ digits % 2 * ends[::-1, None]).sum(axis=1), shift


__all__ = ["SobolEngine"]
