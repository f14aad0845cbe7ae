"""Random generators of the devices called ``cuda``; without one, seeding does nothing, as in PyTorch."""

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
    """Seed the current device's generator."""
    if is_available():
        generator_of(entry_of()).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices."""
    for generator in _generators():
        generator.manual_seed(seed)


def seed() -> None:
    """Seed the current device's generator with a random seed."""
    if is_available():
        generator_of(entry_of()).seed()


def seed_all() -> None:
    """Seed the generators of all devices with a random seed."""
    drawn: int | None = None
    for generator in _generators():
        if drawn is None:
            drawn = generator.seed()
        generator.manual_seed(drawn)


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    return generator_of(entry_of()).initial_seed()


def get_rng_state(device: Any = None) -> Tensor:
    """Return the state of a device's generator, uint8."""
    return generator_of(entry_of(device)).get_state()  # type: ignore[no-any-return]


def get_rng_state_all() -> list[Tensor]:
    """Return the states of all devices' generators."""
    return [generator.get_state() for generator in _generators()]


def set_rng_state(new_state: Tensor, device: Any = None) -> None:
    """Restore the generator's state that ``get_rng_state`` returned."""
    generator_of(entry_of(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of all devices' generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)

