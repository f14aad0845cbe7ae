"""Convolutions with all of PyTorch's arguments, as its graphs and files call them."""

from __future__ import annotations

from typing import Any

from tensocket_core import functions

from ...kinds.composite import composite


@composite("_convolution(Tensor input, Tensor weight, Tensor? bias, any stride, any padding, any dilation, "
           "bool transposed, any output_padding, int groups, bool benchmark, bool deterministic, bool cudnn_enabled, "
           "bool allow_tf32=True) -> Tensor", method=False)
def _convolution(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                 output_padding: Any, groups: int, benchmark: bool, deterministic: bool, cudnn_enabled: bool,
                 allow_tf32: bool = True) -> Any:
    """Return ``convolution``; the last four arguments, which choose among PyTorch's kernels, change nothing."""
    return functions.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
