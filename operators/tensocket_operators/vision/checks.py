"""Errors for arguments of the operators of images and boxes."""

from __future__ import annotations

from typing import Any

from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError


def check_maps(operator: str, maps: Any) -> None:
    """Check that maps are [images, channels, height, width], of floats.

    Raises:
        ShapeError: They have other dimensions.
        DtypeError: They are not floats.
    """
    if maps.dim() != 4:
        raise ShapeError(operator, f"input {list(maps.shape)}", "the input is [images, channels, height, width]",
                         "add the missing dimensions")
    if maps.dtype.kind != "float":
        raise DtypeError(operator, f"an input of {maps.dtype.name}", "maps and boxes are floats",
                         "convert the input with float()")


def check_boxes(operator: str, boxes: Any, bins: tuple[int, int]) -> None:
    """Check that boxes are [boxes, 5] and are divided into bins.

    Raises:
        ShapeError: The boxes have another shape.
        ArgumentError: The number of bins is not positive.
    """
    if boxes.dim() != 2 or boxes.shape[1] != 5:
        raise ShapeError(operator, f"rois {list(boxes.shape)}", "rois must have shape as Tensor[K, 5]: an image, x1, "
                         "y1, x2 and y2 in each row", "put the image's number before the coordinates")
    if min(bins) < 1:
        raise ArgumentError(operator, f"{bins[0]} x {bins[1]} bins", "a box has one bin at least",
                            "pass a positive pooled_height and pooled_width")


def check_same_dtype(operator: str, name: str, tensor: Any, boxes: Any) -> None:
    """Check that a tensor and the boxes have one dtype.

    Raises:
        DtypeError: They differ.
    """
    if tensor.dtype is not boxes.dtype:
        raise DtypeError(operator, f"{name} of {tensor.dtype.name} and rois of {boxes.dtype.name}",
                         f"{name} should have the same type as rois", "convert one of them")


def check_channels(operator: str, maps: Any, bins: tuple[int, int]) -> None:
    """Check that each bin can have channels of its own.

    Raises:
        ShapeError: The channels are not a multiple of the number of bins.
    """
    if maps.shape[1] % (bins[0] * bins[1]):
        raise ShapeError(operator, f"{maps.shape[1]} channels and {bins[0]} x {bins[1]} bins",
                         "input channels must be a multiple of pooling height * pooling width",
                         "change the channels or the bins")


def check_images(operator: str, boxes: Any, number: int) -> None:
    """Check that the images of all boxes exist.

    Raises:
        ArgumentError: One of them does not.
    """
    first, last = (float(value) for value in boxes[:, 0].aminmax())
    if not (first > -1 and last < number):
        raise ArgumentError(operator, f"boxes of images {first:g} to {last:g}, where the input has {number}",
                            "the first column of rois is the number of an image of the input", "correct it")
