# ruff: noqa: N999  PyTorch's name
"""Exchanges of gradients in other forms, of which one process has none."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused(
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook", "PostLocalSGDState post_localSGD_hook",
    "one process exchanges no gradients", "leave the hook out"))
