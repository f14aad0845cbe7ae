"""Errors of composed operators name the operator that the user called."""

from __future__ import annotations

from types import TracebackType

from tensocket_plugins.contract.errors import TensocketError


class blame:
    """A block ``with blame("embedding"):``, in which errors of inner operators are labelled ``[embedding]``."""

    __slots__ = ("operator",)

    def __init__(self, operator: str) -> None:
        self.operator = operator

    def __enter__(self) -> None:
        """Do nothing; only errors need work."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, TensocketError) and error.operator != self.operator:
            raise type(error)(self.operator, error.given, error.rule, error.advice) from None
