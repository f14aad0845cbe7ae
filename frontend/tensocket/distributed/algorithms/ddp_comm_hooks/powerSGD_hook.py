# ruff: noqa: N999  PyTorch's name
"""Exchanges of gradients in other forms, of which one process has none."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused(
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook", "PowerSGDState batched_powerSGD_hook powerSGD_hook",
    "one process exchanges no gradients", "leave the hook out"))
