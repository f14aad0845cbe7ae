"""Scaling of losses for modules whose parameters are divided among processes."""

from __future__ import annotations

from typing import Any

from tensocket.amp.grad_scaler import GradScaler


class ShardedGradScaler(GradScaler):
    """A scaler that agrees with all processes whether gradients are finite; one process agrees with itself.

    Args:
        device: The type of devices.
        init_scale: The first scale.
        backoff_factor: The factor after a step that was skipped.
        growth_factor: The factor after ``growth_interval`` steps that were not.
        growth_interval: See above.
        enabled: Whether it does anything.
        process_group: Accepted as in PyTorch.
    """

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5,
                 growth_factor: float = 2.0, growth_interval: int = 2000, enabled: bool = True,
                 process_group: Any = None) -> None:
        super().__init__(device, init_scale=init_scale, backoff_factor=backoff_factor, growth_factor=growth_factor,
                         growth_interval=growth_interval, enabled=enabled)


__all__ = ["ShardedGradScaler"]
