"""Checks of the options of optimizers."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket_core import Tensor


def check_range(optimizer: str, name: str, value: Any, *, below: float | None = None, positive: bool = False) -> None:
    """Check that an option is a number that is not negative (or not zero, either), and less than ``below``.

    A tensor of one element is a number, too.

    Raises:
        ArgumentTypeError: It is no number.
        ArgumentError: It is out of range.
    """
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ArgumentError(optimizer, f"{name} of shape {tuple(value.shape)}",
                                "a tensor as option has one element", "pass a tensor of one element, or a number")
        value = value.item()
    if not isinstance(value, (int, float)):
        raise ArgumentTypeError(optimizer, f"{name} as {type(value).__name__}", f"{name} is a number",
                                f"pass {name} as a float")
    if positive and value == 0:
        raise ArgumentError(optimizer, f"{name}={value}", f"{name} is more than zero", "pass a positive number")
    if not value >= 0 or (below is not None and not value < below):
        rule = f"{name} is not negative" if below is None else f"{name} is from 0 to less than {below:g}"
        raise ArgumentError(optimizer, f"{name}={value}", rule, "pass a number in this range")


def check_common(optimizer: str, *, lr: Any, eps: float = 0, weight_decay: Any = 0,
                 betas: tuple[Any, ...] = ()) -> None:
    """Check the options that most optimizers have."""
    check_range(optimizer, "lr", lr)
    check_range(optimizer, "eps", eps)
    check_range(optimizer, "weight_decay", weight_decay)
    for number, beta in enumerate(betas):
        check_range(optimizer, f"betas[{number}]", beta, below=1.0)


def check_paths(optimizer: str, *, foreach: bool | None, fused: bool | None = None, differentiable: bool,
                lr: Any = 0.0, capturable: bool = False) -> None:
    """Check that hints at the implementation do not contradict each other.

    Raises:
        ArgumentError: They do.
    """
    if foreach and fused:
        raise ArgumentError(optimizer, "foreach=True, fused=True", "there is one implementation at a time",
                            "leave one of the two out")
    if fused and differentiable:
        raise ArgumentError(optimizer, "fused=True, differentiable=True", "fused steps are not differentiable",
                            "leave fused out")
    if foreach and isinstance(lr, Tensor) and not capturable:
        raise ArgumentError(optimizer, "foreach=True, capturable=False and a tensor as lr",
                            "a tensor as learning rate with foreach needs capturable", "leave foreach out")
