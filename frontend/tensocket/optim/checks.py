"""Checks of the options of optimizers."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

import numpy as np

from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket_operators import Tensor

#: Options that have the same meaning in all optimizers, with their upper bounds.
COMMON_RANGES: Final[Mapping[str, float]] = {"lr": inf, "eps": inf, "weight_decay": inf, "betas": 1.0}


def ranges(**own: float | None) -> Mapping[str, float]:
    """Return the options that are not negative, with their upper bounds: the common ones and ``own``, without those
    that are
    None.
    """
    return {name: below for name, below in {**COMMON_RANGES, **own}.items() if below is not None}


def check_options(optimizer: str, options: Mapping[str, Any], ranges: Mapping[str, float] = COMMON_RANGES) -> None:
    """Check the options of a new optimizer.

    Args:
        optimizer: Its name.
        options: Its options; tuples are checked element by element.
        ranges: Options that are not negative, with their upper bounds.

    Raises:
        ArgumentTypeError: An option in ``ranges`` is not a number.
        ArgumentError: It is out of range, or hints at the implementation contradict each other.
    """
    for name, below in ranges.items():
        value = options.get(name)
        if isinstance(value, tuple):
            for number, part in enumerate(value):
                check_range(optimizer, f"{name}[{number}]", part, below=below)
        elif name in options:
            check_range(optimizer, name, value, below=below)
    _check_paths(optimizer, options)


def check_range(optimizer: str, name: str, value: Any, *, below: float = inf, positive: bool = False) -> None:
    """Check that an option is a number that is not negative (or is positive), and less than ``below``.

    A tensor of one element counts as a number.

    Raises:
        ArgumentTypeError: It is not a number.
        ArgumentError: It is out of range.
    """
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ArgumentError(optimizer, f"{name} of shape {tuple(value.shape)}",
                                "a tensor as option has one element", "pass a tensor of one element, or a number")
        value = value.item()
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(optimizer, f"{name} as {type(value).__name__}", f"{name} is a number",
                                f"pass {name} as a float")
    if positive and value == 0:
        raise ArgumentError(optimizer, f"{name}={value}", f"{name} is more than zero", "pass a positive number")
    if not value >= 0 or (below < inf and not value < below):
        rule = f"{name} is not negative" if below == inf else f"{name} is from 0 to less than {below:g}"
        raise ArgumentError(optimizer, f"{name}={value}", rule, "pass a number in this range")


def check_tensors(optimizer: str, options: Mapping[str, Any]) -> None:
    """Check learning rate and betas that are tensors, for an optimizer that updates lists of parameters.

    Raises:
        ArgumentError: Only one of the betas is a tensor, or a tensor is used with ``foreach`` but without
            ``capturable``.
    """
    tensors = [isinstance(beta, Tensor) for beta in options["betas"]]
    if any(tensors) and not all(tensors):
        raise ArgumentError(optimizer, "betas of which one is a tensor", "betas must be either both floats or both "
                            "Tensors", "convert one of them")
    for kind, is_tensor in (("learning rate", isinstance(options["lr"], Tensor)), ("betas", any(tensors))):
        if is_tensor and options["foreach"] and not options["capturable"]:
            raise ArgumentError(optimizer, f"foreach=True, capturable=False and a tensor as {kind}",
                                f"a tensor as {kind} with foreach needs capturable", "leave foreach out")


def _check_paths(optimizer: str, options: Mapping[str, Any]) -> None:
    """Check that performance hints do not contradict each other."""
    if options.get("foreach") and options.get("fused"):
        raise ArgumentError(optimizer, "foreach=True, fused=True", "there is one implementation at a time",
                            "leave one of the two out")
    if options.get("fused") and options.get("differentiable"):
        raise ArgumentError(optimizer, "fused=True, differentiable=True", "fused steps are not differentiable",
                            "leave fused out")
