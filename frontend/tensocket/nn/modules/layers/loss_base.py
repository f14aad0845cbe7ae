"""The base classes of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tensocket.nn.functions.reductions import reduction_of
from tensocket.nn.modules.module import Module
from tensocket_operators import Tensor


class _Loss(Module):
    """A loss with a reduction over its elements: ``mean``, ``sum`` or ``none``, checked at each call.

    ``reduction`` replaces ``size_average`` and ``reduce``.
    """

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction_of(size_average, reduce, reduction)


class _PairLoss(_Loss):
    """A loss of an input and a target without other arguments."""

    _loss: ClassVar[Callable[..., Tensor]]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return a scalar; for reduction ``none``, a value for each element or example."""
        return self._loss(input, target, reduction=self.reduction)


class _WeightedLoss(_Loss):
    """A loss with weights, which are part of its state."""

    weight: Any

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


__all__: list[str] = []
