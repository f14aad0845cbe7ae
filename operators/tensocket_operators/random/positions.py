"""Positions of all random streams, to save and restore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tensocket_core.device import device_states

from .generator import Generator, every_generator, generator_of

#: The seed and offset of generators.
Positions = dict[Generator, tuple[int, int]]


def device_positions() -> Positions:
    """Return the positions of the generators that opened devices use; those that the program made are not among them.

    ``fork_rng`` and ``checkpoint`` restore these only, as PyTorch does.
    """
    generators = [generator_of(state) for state in device_states()]
    return {generator: generator.position for generator in generators}


def positions() -> Positions:
    """Return the positions of the generators of all opened devices, and of all that the program made."""
    known = device_positions()
    return known | {generator: generator.position for generator in every_generator()}


def restore_positions(known: Positions) -> None:
    """Move generators to these positions; others stay where they are."""
    for generator, position in known.items():
        generator.position = position


@contextmanager
def from_positions(known: Positions) -> Iterator[None]:
    """Draw from these positions in a ``with`` block; afterwards the same generators are where they were before."""
    before = {generator: generator.position for generator in known}
    restore_positions(known)
    try:
        yield
    finally:
        restore_positions(before)
