"""Activations: rectifiers, clamps and shrinkages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensocket.nn import functional as F

from ..numerics import HostArray
from ..record import Operator
from .numeric import record

_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805


def _softplus(x: HostArray) -> HostArray:
    return np.asarray(np.logaddexp(x, 0.0))


def _elu(x: HostArray, alpha: float = 1.0, scale: float = 1.0, steep: float = 1.0) -> HostArray:
    return np.where(x > 0, scale * x, scale * alpha * np.expm1(np.minimum(x, 0.0) * steep))


def _shrunk(x: HostArray) -> HostArray:
    return np.where(np.isnan(x), x, np.sign(x) * np.maximum(np.abs(x) - 0.5, 0.0))


def _activation(name: str, reference: Callable[..., Any], *, call: Any = None, ulp: float = 4.0,
                condition: Any = None, grid: float = 1e4) -> Operator:
    return record(f"nn.functional.{name}", reference, call=call or getattr(F, name), ulp=ulp, condition=condition,
                  grid=grid)


def _size(x: HostArray) -> HostArray:
    return np.abs(x)


#: The records of this family.
OPERATORS = [
    _activation("elu", _elu),
    _activation("celu", lambda x: _elu(x, 2.0, 1.0, 0.5), call=lambda x: F.celu(x, 2.0)),
    _activation("selu", lambda x: _elu(x, _ALPHA, _SCALE)),
    _activation("softplus", lambda x: _softplus(2 * x) / 2, call=lambda x: F.softplus(x, 2.0),
                condition=lambda x: np.ones_like(x) * 1e-1),
    _activation("logsigmoid", lambda x: -_softplus(-x)),
    _activation("mish", lambda x: x * np.tanh(_softplus(x)), ulp=6.0),
    _activation("softsign", lambda x: x / (1 + np.abs(x))),
    _activation("tanhshrink", lambda x: x - np.tanh(x), condition=lambda x: 4 * np.abs(x)),
    _activation("hardtanh", lambda x: np.clip(x, -1, 1), ulp=0.0),
    _activation("relu6", lambda x: np.clip(x, 0, 6), ulp=0.0),
    _activation("hardsigmoid", lambda x: np.clip(x + 3, 0, 6) / 6, condition=lambda x: np.ones_like(x)),
    _activation("hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6, condition=_size),
    _activation("hardshrink", lambda x: np.where(np.abs(x) <= 0.5, 0.0, x), ulp=0.0),
    _activation("softshrink", _shrunk, ulp=1.0),
    _activation("threshold", lambda x: np.where(x <= 0.25, -7.0, x), ulp=0.0,
                call=lambda x: F.threshold(x, 0.25, -7.0)),
    _activation("rrelu", lambda x: np.where(x > 0, x, x * ((1 / 8 + 1 / 3) / 2)), ulp=1.0),
]
