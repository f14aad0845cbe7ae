"""Seeds and states of the random generators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tensocket_core.device import open_device
from tensocket_operators import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from tensocket_operators.random import Generator, device_positions, from_positions, generator_of

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]

#: The generator of random functions on the CPU; opened at its first use.
default_generator: Generator

def __getattr__(name: str) -> Any:
    """Return ``default_generator``."""
    if name == "default_generator":
        return generator_of(open_device("cpu"))
    raise AttributeError(f"module 'tensocket.random' has no attribute {name!r}")


@contextmanager
def fork_rng(devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str | None = None
             ) -> Iterator[None]:
    """Restore the generators of opened devices after the block, as if it had drawn nothing.

    Args:
        devices: Accepted as in PyTorch; the generators of all opened devices are saved.
        enabled: Whether to do anything.
        device_type: Accepted as in PyTorch.
    """
    if not enabled:
        yield
        return
    with from_positions(device_positions()):
        yield
