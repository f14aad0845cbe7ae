"""Exchanges of gradients in other forms, of which one process has none."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused(
    "distributed.algorithms.ddp_comm_hooks.default_hooks", "allreduce_hook bf16_compress_hook bf16_compress_wrapper "
    "fp16_compress_hook fp16_compress_wrapper",
    "one process exchanges no gradients", "leave the hook out"))
