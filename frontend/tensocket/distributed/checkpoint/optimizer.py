"""State of optimizers in checkpoints."""

from __future__ import annotations

from typing import Any, NoReturn

from .refusals import refuse


def load_sharded_optimizer_state_dict(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to read the state of an optimizer from a checkpoint in parts.

    Raises:
        UnsupportedOperator: Always.
    """
    refuse("load_sharded_optimizer_state_dict")


__all__ = ["load_sharded_optimizer_state_dict"]
