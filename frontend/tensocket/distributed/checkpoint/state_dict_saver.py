"""Writing of checkpoints."""

from __future__ import annotations

from typing import Any, NoReturn

from .refusals import refuse


def save(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to write a checkpoint in parts.

    Raises:
        UnsupportedOperator: Always.
    """
    refuse("save")


save_state_dict = async_save = save

__all__ = ["async_save", "save", "save_state_dict"]
