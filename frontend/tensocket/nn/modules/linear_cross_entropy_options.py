"""Options of PyTorch's chunked computation of a linear layer with cross entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from tensocket.errors import ArgumentError
from tensocket_operators import bfloat16, float16, float32, float64

_ALLOWED: Final = {
    "acc_policy": ("accurate", "balanced", "compact", "auto"),
    "acc_dtype": (None, float16, bfloat16, float32, float64),
}


@dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """Options of ``LinearCrossEntropyLoss``; nothing is chunked here, and results do not depend on them.

    Attributes:
        allow_retain_graph: Whether the graph may be used twice.
        batch_chunk_size: Examples in a part.
        chunking_method: Method of dividing into parts.
        acc_policy: Precision of the sum over parts.
        acc_dtype: Dtype of that sum.

    Raises:
        ArgumentError: An option has an unknown value.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        for name, allowed in _ALLOWED.items():
            if getattr(self, name) not in allowed:
                raise ArgumentError("LinearCrossEntropyOptions", f"{name}={getattr(self, name)!r}",
                                    f"{name} is one of {', '.join(map(str, allowed))}", "pass one of these")
        method = self.chunking_method
        if method not in (None, "auto") and str(method).partition(":")[0] != "aspect_ratio":
            raise ArgumentError("LinearCrossEntropyOptions", f"chunking_method={method!r}", "chunking_method is None, "
                                "'auto' or 'aspect_ratio', perhaps with a number", "pass one of these")
        size = self.batch_chunk_size
        if size is not None and size <= 0:
            raise ArgumentError("LinearCrossEntropyOptions", f"batch_chunk_size={size!r}",
                                "batch_chunk_size must be positive int or None", "pass a number of examples")


__all__ = ["LinearCrossEntropyOptions"]
