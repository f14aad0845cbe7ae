"""Neural networks: modules, parameters, losses and initialisation."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from . import functional, init, modules, parameter, utils
from .modules import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    CosineSimilarity,
    CrossEntropyLoss,
    Dropout,
    Embedding,
    Flatten,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    Identity,
    L1Loss,
    LayerNorm,
    LazyLinear,
    LeakyReLU,
    Linear,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ModuleDict,
    ModuleList,
    MSELoss,
    NLLLoss,
    PairwiseDistance,
    ParameterDict,
    ParameterList,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sequential,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
    Unflatten,
)
from .modules.module import Module
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter


def __getattr__(name: str) -> Any:
    """What few programs need, imported when it is first asked for."""
    if name in ("attention", "parallel"):
        return import_module(f"tensocket.nn.{name}")
    if name == "DataParallel":
        return import_module("tensocket.nn.parallel").DataParallel
    raise AttributeError(f"module 'tensocket.nn' has no attribute {name!r}")


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Buffer",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "Identity",
    "L1Loss",
    "LayerNorm",
    "LazyLinear",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "NLLLoss",
    "PReLU",
    "PairwiseDistance",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RReLU",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Unflatten",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "parameter",
    "utils",
]
