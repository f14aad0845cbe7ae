"""The operators in the namespace ``torchvision``, with their schemas and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..library.libraries import Library
from ..library.registering import register_autograd
from ..namespaces import ops
from . import deformable, largest, regions, suppression

_ROI: Final = "Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SHAPE: Final = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_FORWARD: Final = f"Tensor input, {_ROI}"
_MAPPED: Final = _ROI.replace("Tensor rois,", "Tensor grad, Tensor rois, Tensor channel_mapping,")
_PLACES: Final = _ROI.replace("Tensor rois,", "Tensor grad, Tensor rois, Tensor argmax,")
_DEFORMABLE: Final = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask")


def _cuda_version() -> int:
    """Return the CUDA version of the library's kernels: -1, since they belong to no version."""
    return -1


#: Schemas and kernels for all devices. Those of quantized tensors, which tensocket does not have, are defined only.
_OPERATORS: Final[dict[str, Callable[..., Any] | None]] = {
    "_cuda_version() -> int": _cuda_version,
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": suppression.nms,
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": None,
    f"roi_align({_FORWARD}, int sampling_ratio, bool aligned) -> Tensor": regions.roi_align,
    f"_roi_align_backward(Tensor grad, {_ROI}, {_SHAPE}, int sampling_ratio, bool aligned) -> Tensor":
        regions.roi_align_backward,
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, "
    "int rois_zero_point, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, "
    "bool aligned) -> Tensor": None,
    f"roi_pool({_FORWARD}) -> (Tensor, Tensor)": largest.roi_pool,
    f"_roi_pool_backward({_PLACES}, {_SHAPE}) -> Tensor": largest.roi_pool_backward,
    f"ps_roi_align({_FORWARD}, int sampling_ratio) -> (Tensor, Tensor)": regions.ps_roi_align,
    f"_ps_roi_align_backward({_MAPPED}, int sampling_ratio, {_SHAPE}) -> Tensor": regions.ps_roi_align_backward,
    f"ps_roi_pool({_FORWARD}) -> (Tensor, Tensor)": regions.ps_roi_pool,
    f"_ps_roi_pool_backward({_MAPPED}, {_SHAPE}) -> Tensor": regions.ps_roi_pool_backward,
    f"deform_conv2d({_DEFORMABLE}) -> Tensor": deformable.deform_conv2d,
    f"_deform_conv2d_backward(Tensor grad, {_DEFORMABLE}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)":
        deformable.deform_conv2d_backward,
}


def register() -> Library:
    """Define the operators, which live as long as the returned library.

    Raises:
        ArgumentError: The namespace has an owner.
    """
    library = Library("torchvision", "DEF")
    for schema, kernel in _OPERATORS.items():
        name = library.define(schema)
        if kernel is not None:
            library.impl(name.partition("(")[0], kernel, "CompositeExplicitAutograd")
    for name, count in (("roi_align", 3), ("roi_pool", 3), ("ps_roi_align", 4), ("ps_roi_pool", 3)):
        _differentiate(library, name, count)
    register_autograd("torchvision::deform_conv2d", _deformable_backward, setup_context=_save_deformable, lib=library)
    return library


def _differentiate(library: Library, name: str, count: int) -> None:
    """Register the gradient of an operator of boxes.

    Args:
        library: The operators.
        name: The operator's name.
        count: Numbers of the operator that precede the input's shape among the arguments of its gradient.
    """
    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        input, rois, *ctx.numbers = inputs
        ctx.shape = input.shape
        ctx.save_for_backward(rois, *(output[1:] if isinstance(output, tuple) else ()))

    def backward(ctx: Any, grad: Any, *ignored: Any) -> Any:
        made = getattr(ops.torchvision, f"_{name}_backward")(
            grad, *ctx.saved_tensors, *ctx.numbers[:count], *ctx.shape, *ctx.numbers[count:])
        return (made, *(None,) * (len(ctx.numbers) + 1))

    register_autograd(f"torchvision::{name}", backward, setup_context=save, lib=library)


def _save_deformable(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.numbers = inputs[5:]


def _deformable_backward(ctx: Any, grad: Any) -> Any:
    made = ops.torchvision._deform_conv2d_backward(grad, *ctx.saved_tensors, *ctx.numbers)
    return (*made, *(None,) * len(ctx.numbers))
