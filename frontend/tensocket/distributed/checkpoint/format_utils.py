"""Conversion of checkpoints."""

from __future__ import annotations

from typing import Any, NoReturn

from .default_planner import DefaultLoadPlanner
from .refusals import refuse


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Decides to read everything: not supported."""


def dcp_to_torch_save(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to make one file of a checkpoint in parts.

    Raises:
        UnsupportedOperator: Always.
    """
    refuse("dcp_to_torch_save")


def torch_save_to_dcp(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to make a checkpoint in parts of one file.

    Raises:
        UnsupportedOperator: Always.
    """
    refuse("torch_save_to_dcp")


__all__ = ["_EmptyStateDictLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]
