"""Attention whose sequence is divided among processes, of which there is one."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused(
    "distributed.tensor.experimental._attention",
    "context_parallel set_rotate_method",
    "one process has its tensors whole",
    "use the tensors and modules themselves"))
