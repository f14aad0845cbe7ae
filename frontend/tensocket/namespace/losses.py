"""Losses of the main namespace, which by default reduce nothing; those of ``nn.functional`` return the mean."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_operators import functions


def _unreduced(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loss whose default is ``reduction=0``: one value for each example or element."""
    signature = inspect.signature(loss)
    parameters = [p.replace(default=0) if p.name == "reduction" else p for p in signature.parameters.values()]
    position = list(signature.parameters).index("reduction")

    @functools.wraps(loss)
    def unreduced(*args: Any, **keywords: Any) -> Any:
        if len(args) <= position:
            keywords.setdefault("reduction", 0)
        return loss(*args, **keywords)

    unreduced.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return unreduced


#: The losses in the main namespace, by name.
LOSSES: Final = {
    record.name: _unreduced(getattr(functions, record.name)) for record in (*OPERATORS.values(), *COMPOSITES.values())
    if record.function and record.public_namespace == "torch" and "reduction" in record.schema.names}
