"""Samples that every pointwise operator gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..numerics import Format, HostArray, to_format
from ..record import Draw, Given, Maker, Sample

#: Range of an argument's uniform values, for floats.
Range = tuple[float, float]
#: Function that maps a sample's values into the operator's domain.
Restrict = Callable[[int, HostArray], HostArray]


@dataclass(frozen=True)
class Domain:
    """The domain of a pointwise operator's arguments.

    Attributes:
        ranges: One range for each argument.
        restrict: Maps arguments into the domain; also applied to the grid.
        grid: Largest magnitude of finite values in the grid of floats.
    """

    ranges: tuple[Range, ...]
    restrict: Restrict | None = None
    grid: float = float("inf")

    def given(self, draw: Draw, position: int, shape: tuple[int, ...], layout: str = "plain") -> Given:
        """Return the argument at ``position``."""
        low, high = self.ranges[position]
        return self.kept(position, draw.given(shape, layout, low, high))

    def kept(self, position: int, given: Given) -> Given:
        """Return ``given`` with its values inside the domain."""
        if self.restrict is None:
            return given
        return Given(self.restrict(position, given.array).astype(given.array.dtype), given.short, given.layout)


def value_grid(form: Format, largest: float = float("inf")) -> HostArray:
    """Return values at which implementations often fail: zeros, halves, subnormals, limits, infinities, NaN."""
    if form.kind == "bool":
        return np.array([False, True])
    if form.kind == "int":
        info = np.iinfo(form.numpy)
        values = [0, 1, 2, 3, 5, 100, int(info.max), int(info.max) - 1, int(info.min), int(info.min) + 1]
        values += [-1, -2, -3, -7, -100] if info.min < 0 else []
        return np.array(values, form.numpy)
    if form.kind == "complex":  # the special values of parts are those of floats; libraries differ on mixtures
        return to_format(np.array([1, -1, 1j, -1j, 0.5 + 0.5j, 3 - 4j, 1e-3 + 2j, -2.5 + 1e-2j, -0.75 - 3j]), form)
    halves = [0.0, 1.0, 0.5, 1.5, 2.5, 3.5, 0.25, 3.7, 1e-3, 0.1, 10.0, 100.0, 1e4]
    edges = [form.tiny, form.tiny / 2, form.tiny * 2.0 ** (1 - form.digits), form.largest, form.largest / 2]
    finite = np.array([value for value in halves + edges if value <= largest])
    special = np.array([np.inf, np.nan])
    return to_format(np.concatenate([finite, -finite, special, -special]), form)


#: Labels of the plain samples, with shape and layout of the first and of every other argument.
_PLAIN: Final[tuple[tuple[str, tuple[int, ...], str, tuple[int, ...], str], ...]] = (
    ("prime#0", (7, 13), "plain", (7, 13), "plain"),
    ("scalar#0", (), "plain", (), "plain"),
    ("one#0", (1,), "plain", (1,), "plain"),
    ("empty#0", (3, 0, 2), "plain", (3, 0, 2), "plain"),
    ("prime#1", (31,), "plain", (31,), "plain"),
    ("transposed#0", (17, 5), "transposed", (17, 5), "transposed"),
    ("expanded#0", (11, 6), "expanded", (11, 6), "plain"),
    ("offset#0", (9, 7), "offset", (9, 7), "plain"),
    ("step#0", (5, 3, 7), "step", (5, 3, 7), "plain"),
    ("large#0", (65536 + 19,), "plain", (65536 + 19,), "plain"),
)
#: Labels of the samples for several arguments, with the same columns.
_MIXED: Final[tuple[tuple[str, tuple[int, ...], str, tuple[int, ...], str], ...]] = (
    ("broadcast#0", (5, 1, 4), "plain", (3, 1), "plain"),
    ("broadcast#1", (), "plain", (2, 3), "plain"),
    ("broadcast#2", (257, 129), "plain", (129,), "plain"),
    ("transposed#1", (13, 8), "plain", (13, 8), "transposed"),
    ("expanded#1", (4, 7), "plain", (4, 7), "expanded"),
    ("step#1", (6, 5), "transposed", (6, 5), "step"),
)


def pointwise_samples(domain: Domain) -> dict[str, Maker]:
    """Return all samples of a pointwise operator with as many arguments as the domain has ranges."""
    rows = _PLAIN if len(domain.ranges) == 1 else _PLAIN + _MIXED
    samples: dict[str, Maker] = {row[0]: _plain(domain, *row[1:]) for row in rows}
    samples["grid#0"] = lambda draw: Sample(_grid(domain, draw.form))
    return samples


def _plain(domain: Domain, shape: tuple[int, ...], layout: str, others: tuple[int, ...], other: str) -> Maker:
    def make(draw: Draw) -> Sample:
        rest = [domain.given(draw, i, others, other) for i in range(1, len(domain.ranges))]
        return Sample((domain.given(draw, 0, shape, layout), *rest))

    return make


def _grid(domain: Domain, form: Format) -> tuple[Given, ...]:
    values = value_grid(form, domain.grid)
    # A cube of three arguments would be large and of little use: the third one repeats the second, reversed.
    axes = list(np.meshgrid(*[values] * min(len(domain.ranges), 2), indexing="ij"))
    axes += [axes[-1][::-1].copy()] * (len(domain.ranges) - len(axes))
    return tuple(domain.kept(i, Given(np.ascontiguousarray(axis), form.short)) for i, axis in enumerate(axes))
