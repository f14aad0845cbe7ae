"""Types for recorded values."""

from __future__ import annotations

from typing import TypeVar

from .proxy import AnnotationError, Proxy

Value = TypeVar("Value")


def annotate(val: Value, type: object) -> Value:
    """Set the type of a recorded value; other values come back as they are.

    Raises:
        AnnotationError: The value has a type already.
    """
    if isinstance(val, Proxy):
        if val.node.type:
            raise AnnotationError("annotate", f"{val}, whose type is {val.node.type}", "Tried to annotate a value that "
                                  "already had a type on it!", "annotate it once")
        val.node.type = type
    return val
