"""Losses of the main namespace reduce nothing without ``reduction``; those of ``nn.functional`` take the mean."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tensocket_core import functions


def _unreduced(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A loss with ``reduction=0``, one value for each example or element, as its default."""
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


binary_cross_entropy_with_logits = _unreduced(functions.binary_cross_entropy_with_logits)
cosine_embedding_loss = _unreduced(functions.cosine_embedding_loss)
ctc_loss = _unreduced(functions.ctc_loss)
hinge_embedding_loss = _unreduced(functions.hinge_embedding_loss)
kl_div = _unreduced(functions.kl_div)
margin_ranking_loss = _unreduced(functions.margin_ranking_loss)
triplet_margin_loss = _unreduced(functions.triplet_margin_loss)
