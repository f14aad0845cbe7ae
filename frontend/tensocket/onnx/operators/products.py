"""Matrix products and convolutions."""

from __future__ import annotations

from typing import Any

import tensocket as torch
from tensocket.nn import functional as F

from .pointwise import aligned
from .table import add, operator
from .values import ints, text
from .windows import Window

add("MatMul", torch.matmul)


@operator("Gemm")
def gemm(a: Any, b: Any, c: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
         broadcast: Any = None) -> Any:
    """Return alpha a @ b + beta c, with transposed matrices where asked for."""
    left, right = (a.t() if transA else a), (b.t() if transB else b)
    if not left.dtype.is_floating_point:
        found = integer_matmul(left, right).to(a.dtype)
        found = found if alpha == 1 else (alpha * found).to(a.dtype)
    else:
        found = left @ right if alpha == 1 else alpha * (left @ right)
    if c is None or beta == 0:
        return found
    return found + (c if beta == 1 else (beta * c).to(a.dtype))


def integer_matmul(a: Any, b: Any) -> Any:
    """Return the product of matrices of integers, in int64."""
    return torch.matmul(a.to(torch.int64), b.to(torch.int64))


@operator("MatMulInteger")
def matmul_integer(a: Any, b: Any, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
    """Return the int32 product of 8-bit matrices less their zero points; that of a may be one for each row."""
    left, right = a.to(torch.int64), b.to(torch.int64)
    if a_zero_point is not None:
        zero = a_zero_point.to(torch.int64)
        left = left - (zero.unsqueeze(-1) if zero.dim() == 1 and zero.numel() > 1 else zero)
    if b_zero_point is not None:
        right = right - b_zero_point.to(torch.int64)
    return torch.matmul(left, right).to(torch.int32)


def convolve(x: Any, w: Any, bias: Any, window: Window, group: int) -> Any:
    """Return a convolution of one to three spatial dimensions; without any, a product of channels."""
    before, after = window.pads(x.shape[2:])
    if before == after:
        padding: list[int] = before
    else:
        x, padding = window.padded(x, before, after, 0), [0] * len(before)
    function = (F.conv1d, F.conv2d, F.conv3d)[len(before) - 1]
    return function(x, w, bias, window.strides, padding, window.dilations, group)


@operator("Conv")
def conv(x: Any, w: Any, bias: Any = None, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
         kernel_shape: Any = None, pads: Any = None, strides: Any = None) -> Any:
    """Return a convolution."""
    return convolve(x, w, bias, Window(w.shape[2:], strides, dilations, pads, auto_pad), group)


@operator("ConvInteger")
def conv_integer(x: Any, w: Any, x_zero_point: Any = None, w_zero_point: Any = None, auto_pad: str = "NOTSET",
                 dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None,
                 strides: Any = None) -> Any:
    """Return the int32 convolution of 8-bit images less their zero points; float64 holds its sums exactly."""
    image, weight = x.to(torch.float64), w.to(torch.float64)
    if x_zero_point is not None:
        image = image - x_zero_point.to(torch.float64)
    if w_zero_point is not None:
        weight = weight - w_zero_point.to(torch.float64).reshape(-1, *[1] * (w.dim() - 1))
    window = Window(w.shape[2:], strides, dilations, pads, auto_pad)
    return convolve(image, weight, None, window, group).to(torch.int32)


@operator("ConvTranspose")
def conv_transpose(x: Any, w: Any, bias: Any = None, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
                   kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None, pads: Any = None,
                   strides: Any = None) -> Any:
    """Return a transposed convolution, of which ``pads`` elements at the borders are left out."""
    window = Window(w.shape[2:], strides, dilations, None, "NOTSET")
    n = len(window.kernel)
    extra = ints(output_padding) or [0] * n
    full = [window.strides[k] * (x.shape[2 + k] - 1) + extra[k] + window.dilations[k] * (window.kernel[k] - 1) + 1
            for k in range(n)]
    before, after = _cuts(full, x.shape[2:], window, n, pads, text(auto_pad), output_shape)
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    # Elements of ``output_padding`` have no contributions but the bias: add them as far as a stride allows.
    found = function(x, w, None, window.strides, 0, 0, group, window.dilations)
    widths = [part for k in reversed(range(n)) for part in (-before[k], extra[k] - after[k])]
    found = F.pad(found, widths) if any(widths) else found
    return found if bias is None else found + bias.reshape(1, -1, *[1] * n)


def _cuts(full: list[int], sizes: Any, window: Window, n: int, pads: Any, auto_pad: str,
          output_shape: Any) -> tuple[list[int], list[int]]:
    """Return the numbers of elements to leave out at the beginnings and ends."""
    if output_shape is None and auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        given = ints(pads) or [0] * 2 * n
        return given[:n], given[n:]
    wanted = ints(output_shape)[-n:] if output_shape is not None else [
        sizes[k] * window.strides[k] for k in range(n)]
    total = [full[k] - wanted[k] for k in range(n)]
    smaller = [t // 2 for t in total]
    larger = [t - s for t, s in zip(total, smaller, strict=True)]
    return (smaller, larger) if auto_pad == "SAME_UPPER" else (larger, smaller)


@operator("DeformConv")
def deform_conv(x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None, dilations: Any = None,
                group: int = 1, kernel_shape: Any = None, offset_group: int = 1, pads: Any = None,
                strides: Any = None) -> Any:
    """Return a convolution of two dimensions whose taps read at moved places, between elements.

    Source: Dai et al., Deformable Convolutional Networks, 2017; with masks, Zhu et al., Deformable ConvNets v2, 2019.
    """
    window = Window(w.shape[2:], strides, dilations, pads, "NOTSET")
    (n, channels, height, width), (kh, kw), (oh, ow) = x.shape, window.kernel, offset.shape[2:]
    (top, left), _ = window.pads(x.shape[2:])
    moves = offset.reshape(n, offset_group, kh * kw, 2, oh, ow)

    def base(size: int, step: int, taps: int, gap: int, pad: int) -> Any:
        places = torch.arange(size, device=x.device) * step - pad
        return (places.reshape(1, -1) + torch.arange(taps, device=x.device).reshape(-1, 1) * gap).to(x.dtype)

    rows = base(oh, window.strides[0], kh, window.dilations[0], top).reshape(kh, 1, oh, 1).expand(kh, kw, oh, ow)
    columns = base(ow, window.strides[1], kw, window.dilations[1], left).reshape(1, kw, 1, ow).expand(kh, kw, oh, ow)
    y = rows.reshape(kh * kw, oh, ow) + moves[:, :, :, 0]
    z = columns.reshape(kh * kw, oh, ow) + moves[:, :, :, 1]
    image = x.reshape(n * offset_group, channels // offset_group, height, width)
    read = _between(image, *[p.reshape(n * offset_group, -1) for p in (y, z)])
    read = read.reshape(n, offset_group, -1, kh * kw, oh, ow)
    if mask is not None:
        read = read * mask.reshape(n, offset_group, 1, kh * kw, oh, ow)
    read = read.reshape(n, group, channels // group, kh * kw, oh, ow)
    weight = w.reshape(group, w.shape[0] // group, w.shape[1], kh * kw)
    found = torch.einsum("ngckhw,gock->ngohw", read, weight).reshape(n, w.shape[0], oh, ow)
    return found if bias is None else found + aligned(found, bias, 1)


def _between(image: Any, y: Any, x: Any) -> Any:
    """Return an image [B, C, H, W] at places [B, N] between elements, as [B, C, N]; there are zeros around it."""
    batch, channels, height, width = image.shape
    flat = image.reshape(batch, channels, height * width)
    top, left = torch.floor(y), torch.floor(x)
    found = torch.zeros(batch, channels, y.shape[1], dtype=image.dtype, device=image.device)
    for row, down in ((top, top + 1 - y), (top + 1, y - top)):
        for column, across in ((left, left + 1 - x), (left + 1, x - left)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            place = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
            place = place.to(torch.int64).unsqueeze(1).expand(batch, channels, -1)
            weight = torch.where(inside, down * across, torch.zeros_like(y)).unsqueeze(1)
            found = found + torch.gather(flat, 2, place) * weight
    return found
