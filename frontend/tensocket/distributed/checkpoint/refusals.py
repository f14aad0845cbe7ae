"""The error of names for checkpoints in parts, which several processes write together."""

from __future__ import annotations

from typing import Any, NoReturn

from tensocket.errors import UnsupportedOperator


def refuse(name: str) -> NoReturn:
    """Raise the error of a function or class.

    Raises:
        UnsupportedOperator: Always.
    """
    raise UnsupportedOperator(f"distributed.checkpoint.{name}", "a checkpoint in parts", "one process has whole "
                              "tensors, and writes one file",
                              "save the state dict with tensocket.save, and read it with tensocket.load")


class Refused:
    """A class of which there are no objects.

    Raises:
        UnsupportedOperator: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse(type(self).__name__)
