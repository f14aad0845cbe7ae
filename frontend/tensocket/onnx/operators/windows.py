"""Windows of convolutions and pooling: sizes, strides, dilations and padding, as ONNX gives them."""

from __future__ import annotations

from typing import Any

from tensocket.nn import functional as F

from .values import ints, text


class Window:
    """A window that moves over an image.

    Args:
        kernel: Its sizes.
        strides: Steps between places, by default 1.
        dilations: Steps between elements, by default 1.
        pads: Elements of padding before each dimension, then after each.
        auto_pad: ``NOTSET``, ``VALID`` or how to find the padding that keeps sizes.
        ceil_mode: Whether the last place may reach beyond the padding.
    """

    def __init__(self, kernel: Any, strides: Any, dilations: Any, pads: Any, auto_pad: Any,
                 ceil_mode: int = 0) -> None:
        self.kernel: list[int] = ints(list(kernel))
        n = len(self.kernel)
        self.strides: list[int] = ints(strides) or [1] * n
        self.dilations: list[int] = ints(dilations) or [1] * n
        self._pads = ints(pads) or [0] * 2 * n
        self._auto, self._ceil = text(auto_pad), bool(ceil_mode)

    def extent(self, k: int) -> int:
        """Return the number of elements from a window's first one to its last."""
        return self.dilations[k] * (self.kernel[k] - 1) + 1

    def pads(self, sizes: Any) -> tuple[list[int], list[int]]:
        """Return the padding before and after the dimensions of an image."""
        n = len(self.kernel)
        if self._auto == "VALID":
            return [0] * n, [0] * n
        if self._auto not in ("SAME_UPPER", "SAME_LOWER"):
            return self._pads[:n], self._pads[n:]
        totals = [max((-(-sizes[k] // self.strides[k]) - 1) * self.strides[k] + self.extent(k) - sizes[k], 0)
                  for k in range(n)]
        half = [t // 2 for t in totals]
        rest = [t - h for t, h in zip(totals, half, strict=True)]
        return (half, rest) if self._auto == "SAME_UPPER" else (rest, half)

    def places(self, k: int, size: int, before: int, after: int) -> int:
        """Return the number of places along a dimension; each begins inside of the image or the padding before it."""
        room = size + before + after - self.extent(k)
        if self._ceil and self._auto not in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            count = -(-room // self.strides[k]) + 1
            return count - 1 if (count - 1) * self.strides[k] >= size + before else count
        return room // self.strides[k] + 1

    def reach(self, k: int, size: int, before: int, after: int) -> int:
        """Return the padding after a dimension that the last place needs, at least ``after``."""
        count = self.places(k, size, before, after)
        return max((count - 1) * self.strides[k] + self.extent(k) - size - before, after)

    @staticmethod
    def padded(x: Any, before: list[int], after: list[int], value: Any) -> Any:
        """Return an image with a border of one value."""
        widths = [w for pair in reversed(list(zip(before, after, strict=True))) for w in pair]
        return F.pad(x, widths, value=value) if any(widths) else x

    def taps(self, x: Any, counts: list[int]) -> Any:
        """Return the elements of all windows of a padded image, [B, C, places.., kernel..], as a view."""
        for k, count in enumerate(counts):
            length = (count - 1) * self.strides[k] + self.extent(k)
            x = x.narrow(2 + k, 0, length).unfold(2 + k, self.extent(k), self.strides[k])
        for k, step in enumerate(self.dilations):
            dim = 2 + len(counts) + k
            x = x[(slice(None),) * dim + (slice(None, None, step),)]
        return x
