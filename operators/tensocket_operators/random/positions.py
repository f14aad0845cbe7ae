"""Positions of all random streams, to save and restore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tensocket_core.device import device_states

from .generator import generator_of

#: By key of a device, the seed and offset of its generator.
States = dict[int, tuple[int, int]]


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
