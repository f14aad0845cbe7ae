"""Positions of all random streams, to save and restore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tensocket_core.device import device_states

from .generator import Generator, every_generator, generator_of

#: By key of a device, the seed and offset of its generator.
States = dict[int, tuple[int, int]]
#: The seed and offset of every generator.
Positions = dict[Generator, tuple[int, int]]


def rng_states() -> States:
    """Return the positions of the generators of all opened devices."""
    return {state.key: generator_of(state).position for state in device_states()}


def restore_rng_states(states: States) -> None:
    """Move the generators to these positions; those of other devices stay where they are."""
    for state in device_states():
        if state.key in states:
            generator_of(state).position = states[state.key]


@contextmanager
def fork_rng_states(states: States) -> Iterator[None]:
    """Draw from these positions in a ``with`` block; afterwards restore the generators' positions.

    Args:
        states: Positions that ``rng_states`` returned.
    """
    before = rng_states()
    restore_rng_states(states)
    try:
        yield
    finally:
        restore_rng_states(before)


def positions() -> Positions:
    """Return the positions of the generators of all opened devices, and of all that the program made."""
    for state in device_states():
        generator_of(state)
    return {generator: generator.position for generator in every_generator()}


def restore_positions(known: Positions) -> None:
    """Move generators to these positions; others stay where they are."""
    for generator, position in known.items():
        generator.position = position


@contextmanager
def from_positions(known: Positions) -> Iterator[None]:
    """Draw from these positions in a ``with`` block; afterwards restore the positions of all generators."""
    before = positions()
    restore_positions(known)
    try:
        yield
    finally:
        restore_positions(before)
