"""Seeds and states of the random generators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tensocket_core import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from tensocket_core.random import fork_rng_states, rng_states

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextmanager
def fork_rng(devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str | None = None
             ) -> Iterator[None]:
    """What the block draws does not move the generators of opened devices: they go on afterwards where they were.

    Args:
        devices: Accepted as in PyTorch; the generators of all opened devices are kept.
        enabled: Whether to do anything.
        device_type: Accepted as in PyTorch.
    """
    if not enabled:
        yield
        return
    with fork_rng_states(rng_states()):
        yield
