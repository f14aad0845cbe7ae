"""The state of compilation, by PyTorch's private names."""

from __future__ import annotations

from tensocket.jit.compiler import classes


def _clear_class_state() -> None:
    """Forget all scripted classes."""
    classes.clear()
