"""Averages of a model's weights over training steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from tensocket.errors import ArgumentError
from tensocket.namespace import foreach
from tensocket.nn.modules.module import Module
from tensocket_operators import Tensor, int64, no_grad, tensor

from .lr_scheduler.base import LRScheduler, per_group
from .optimizer import Optimizer

Average = Callable[[Tensor, Tensor, Any], Any]
ListAverage = Callable[[list[Tensor], list[Tensor], Any], None]


def get_swa_avg_fn() -> Average:
    """Return the running mean of all weights so far."""

    def average(averaged: Tensor, current: Tensor, count: Any) -> Any:
        return averaged + (current - averaged) / (count + 1)

    return no_grad()(average)  # type: ignore[no-any-return]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return the exponential moving average: ``decay`` is the weight of the old average.

    Raises:
        ArgumentError: ``decay`` is not between 0 and 1.
    """
    _check_decay("get_ema_avg_fn", decay)

    def average(averaged: Tensor, current: Tensor, count: Any) -> Any:
        return decay * averaged + (1 - decay) * current

    return no_grad()(average)  # type: ignore[no-any-return]


def get_swa_multi_avg_fn() -> ListAverage:
    """Return ``get_swa_avg_fn`` for lists of tensors, in place."""

    def average(averaged: list[Tensor], current: list[Tensor], count: Any) -> None:
        _approach(averaged, current, 1 / (float(count) + 1))

    return no_grad()(average)  # type: ignore[no-any-return]


def get_ema_multi_avg_fn(decay: float = 0.999) -> ListAverage:
    """Return ``get_ema_avg_fn`` for lists of tensors, in place.

    Raises:
        ArgumentError: ``decay`` is not between 0 and 1.
    """
    _check_decay("get_ema_multi_avg_fn", decay)

    def average(averaged: list[Tensor], current: list[Tensor], count: Any) -> None:
        _approach(averaged, current, 1 - decay)

    return no_grad()(average)  # type: ignore[no-any-return]


class AveragedModel(Module):
    """A copy of a model whose weights are averages of the model's.

    Args:
        model: The model.
        device: Device of the copy.
        avg_fn: A function from the old average, the weights and the number of averages so far to the new average.
        multi_avg_fn: The same for lists, in place.
        use_buffers: Whether buffers are averaged as well; otherwise they are copied.

    Raises:
        ArgumentError: Both functions are given.
    """

    n_averaged: Tensor

    def __init__(self, model: Module, device: Any = None, avg_fn: Average | None = None,
                 multi_avg_fn: ListAverage | None = None, use_buffers: bool = False) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ArgumentError("AveragedModel", "avg_fn and multi_avg_fn", "one of avg_fn and multi_avg_fn is given",
                                "leave one out")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output of the averaged model."""
        return self.module(*args, **kwargs)

    @no_grad()  # type: ignore[untyped-decorator]
    def update_parameters(self, model: Module) -> None:
        """Add the current weights of ``model`` to the averages."""
        own, theirs = self._tensors(self.module), self._tensors(model)
        theirs = [there.detach().to(here.device) for here, there in zip(own, theirs, strict=True)]
        if self.n_averaged.item() == 0:
            foreach.copy_(own, theirs)
        elif self.avg_fn is not None:
            for here, there in zip(own, theirs, strict=True):
                here.copy_(self.avg_fn(here, there, self.n_averaged.to(here.device)))
        else:
            average = self.multi_avg_fn or get_swa_multi_avg_fn()
            for indices in _by_kind(own):
                average([own[i] for i in indices], [theirs[i] for i in indices], self.n_averaged)
        if not self.use_buffers:
            for here, there in zip(self.module.buffers(), model.buffers(), strict=True):
                here.copy_(there.detach().to(here.device))
        self.n_averaged += 1

    def _tensors(self, module: Module) -> list[Tensor]:
        found = chain(module.parameters(), module.buffers()) if self.use_buffers else module.parameters()
        return [value.detach() for value in found]


@no_grad()  # type: ignore[untyped-decorator]
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the statistics of a model's batch normalisations over the data of ``loader``.

    Args:
        loader: Batches, or lists whose first element is the batch.
        model: The model; during the call, it is in training mode.
        device: The device that batches are moved to.
    """
    momenta = {module: module.momentum for module in model.modules() if _is_batch_norm(module)}
    if not momenta:
        return
    training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        # Without momentum, the statistics are plain means over all batches.
        module.momentum = None
    for batch in loader:
        given = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(given if device is None else given.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """A schedule that moves the rates to ``swa_lr`` and leaves them there.

    Args:
        optimizer: The optimizer.
        swa_lr: Final rate, or one for each group.
        anneal_epochs: Number of epochs until the final rate.
        anneal_strategy: ``cos`` or ``linear``.
        last_epoch: The epoch to continue from.

    Raises:
        ArgumentError: An option is out of its domain.
    """

    def __init__(self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: Any = 10,
                 anneal_strategy: str = "cos", last_epoch: int = -1) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError("SWALR", f"anneal_strategy={anneal_strategy!r}", "anneal_strategy is 'cos' or 'linear'",
                                "pass one of them")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ArgumentError("SWALR", f"anneal_epochs={anneal_epochs}", "anneal_epochs is an int and not negative",
                                "pass 0 or more")
        for group, rate in zip(optimizer.param_groups, per_group("SWALR", "swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates for this step, from the previous ones, which determine the initial rates."""
        rates = self._rates()
        step = self._step_count - 1 if self.anneal_epochs else max(1, self._step_count - 1)
        before, now = self._share(step - 1), self._share(step)
        found = []
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            final = group["swa_lr"]
            start = final if before == 1 else (rate - before * final) / (1 - before)
            found.append(final * now + start * (1 - now))
        return found

    def _share(self, step: int) -> float:
        part = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return part if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * part)) / 2


def _approach(averaged: list[Tensor], current: list[Tensor], share: float) -> None:
    if averaged[0].is_floating_point() or averaged[0].is_complex():
        foreach.lerp_(averaged, current, share)
    else:
        for here, there in zip(averaged, current, strict=True):
            here.copy_(here * (1 - share) + there * share)


def _by_kind(tensors: list[Tensor]) -> list[list[int]]:
    """Group positions of tensors by dtype and device."""
    kinds: dict[Any, list[int]] = {}
    for index, value in enumerate(tensors):
        kinds.setdefault((value.dtype, str(value.device)), []).append(index)
    return list(kinds.values())


def _is_batch_norm(module: Any) -> bool:
    return any(kind.__name__ == "_BatchNorm" for kind in type(module).__mro__)


def _check_decay(name: str, decay: float) -> None:
    if not 0 <= decay <= 1:
        raise ArgumentError(name, f"decay={decay}", "decay is between 0 and 1", "pass a share")


__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]
