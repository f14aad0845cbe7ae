"""Reading of checkpoints."""

from __future__ import annotations

from typing import Any, NoReturn

from .refusals import refuse


def load(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to read a checkpoint in parts.

    Raises:
        UnsupportedOperator: Always.
    """
    refuse("load")


load_state_dict = _load_state_dict = load

__all__ = ["_load_state_dict", "load", "load_state_dict"]
