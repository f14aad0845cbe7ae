"""Random generators of the devices called ``cuda``; seeding does nothing where there is none, as in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensocket_operators import Tensor
from tensocket_operators.random import Generator, generator_of

from .names import device_count, entry_of, is_available


def _generators() -> list[Generator]:
    if not is_available():
        return []
    return [generator_of(entry_of(index)) for index in range(device_count())]


def manual_seed(seed: int) -> None:
    """Start the current device's stream of random numbers of ``seed``."""
    if is_available():
        generator_of(entry_of()).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Start the streams of random numbers of ``seed`` on all devices."""
    for generator in _generators():
        generator.manual_seed(seed)


def seed() -> None:
    """Start a stream of random numbers that nobody knows on the current device."""
    if is_available():
        generator_of(entry_of()).seed()


def seed_all() -> None:
    """Start a stream of random numbers that nobody knows on all devices."""
    drawn: int | None = None
    for generator in _generators():
        if drawn is None:
            drawn = generator.seed()
        generator.manual_seed(drawn)


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    return generator_of(entry_of()).initial_seed()


def get_rng_state(device: Any = None) -> Tensor:
    """State of a device's generator, uint8."""
    return generator_of(entry_of(device)).get_state()  # type: ignore[no-any-return]


def get_rng_state_all() -> list[Tensor]:
    """States of all devices' generators."""
    return [generator.get_state() for generator in _generators()]


def set_rng_state(new_state: Tensor, device: Any = None) -> None:
    """Go on where a generator was when ``get_rng_state`` returned ``new_state``."""
    generator_of(entry_of(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of all devices' generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)

