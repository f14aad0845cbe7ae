"""Settings of programs for CUDA: precision of products, and implementations of attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from tensocket_plugins.contract.registry import registry

from .flags import Flags

#: Precision of matrix products; ignored, as products are computed in the dtype of their operands.
matmul: Final = Flags.module(
    ModuleType(__name__ + ".matmul", "Precision of matrix products."), allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False, fp32_precision="none")

_ATTENTION: Final = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Whether a backend called ``cuda`` is installed."""
    return "cuda" in registry().names()


def flash_sdp_enabled() -> bool:
    """Whether flash attention is allowed."""
    return _ATTENTION["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Set whether flash attention is allowed; there is one implementation of attention, which always runs."""
    _ATTENTION["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """Whether memory-efficient attention is allowed."""
    return _ATTENTION["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Set whether memory-efficient attention is allowed."""
    _ATTENTION["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """Whether attention may be composed of products and a softmax."""
    return _ATTENTION["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Set whether attention may be composed of products and a softmax."""
    _ATTENTION["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """Whether cuDNN's attention is allowed."""
    return _ATTENTION["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Set whether cuDNN's attention is allowed."""
    _ATTENTION["cudnn"] = enabled


def is_flash_attention_available() -> bool:
    """Return False: the only implementation of attention is not flash attention."""
    return False


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """Return False: the only implementation of attention is not flash attention."""
    return False


can_use_efficient_attention = can_use_flash_attention
can_use_cudnn_attention = can_use_flash_attention


@contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
               enable_cudnn: bool = True) -> Iterator[dict[str, bool]]:
    """Set for a block which implementations of attention are allowed."""
    before = dict(_ATTENTION)
    _ATTENTION.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield dict(_ATTENTION)
    finally:
        _ATTENTION.update(before)


def preferred_linalg_library(backend: str | None = None) -> str:
    """Return the library that decomposes matrices; accepted as in PyTorch, but the device's backend decides."""
    return "default"


preferred_blas_library = preferred_linalg_library

__all__ = [
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]
