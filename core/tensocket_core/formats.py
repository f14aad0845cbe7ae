"""Memory formats and layouts: the order and encoding of a tensor's elements in memory."""

from __future__ import annotations

from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentTypeError
from tensocket_plugins.contract.naming import package_name


class memory_format:
    """An order of dimensions in memory. The class has four objects.

    Attributes:
        name: ``contiguous_format``: row-major. ``preserve_format``: the order of the source of a copy.
            ``channels_last``: N, H, W, C in memory for dimensions N, C, H, W. ``channels_last_3d``: N, D, H, W, C.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{package_name()}.{self.name}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _format_named, (self.name,)


class layout:
    """An encoding of a tensor's elements.

    Attributes:
        name: ``strided``: strides give the offset of every element. ``sparse_coo``: positions and values of some
            elements. ``sparse_csr``: row starts, columns and values of some elements of a matrix;
            ``sparse_csc``: column starts, rows and values. ``sparse_bsr``, ``sparse_bsc``: the same for blocks.
            ``jagged``: consecutive tensors that differ in one dimension, and the start of each.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{package_name()}.{self.name}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _layout_named, (self.name,)


contiguous_format: Final = memory_format("contiguous_format")
preserve_format: Final = memory_format("preserve_format")
channels_last: Final = memory_format("channels_last")
channels_last_3d: Final = memory_format("channels_last_3d")
strided: Final = layout("strided")
sparse_coo: Final = layout("sparse_coo")
sparse_csr: Final = layout("sparse_csr")
sparse_csc: Final = layout("sparse_csc")
sparse_bsr: Final = layout("sparse_bsr")
sparse_bsc: Final = layout("sparse_bsc")
jagged: Final = layout("jagged")

_FORMATS: Final = {x.name: x for x in (contiguous_format, preserve_format, channels_last, channels_last_3d)}


_LAYOUTS: Final = {x.name: x for x in (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged)}


def _layout_named(name: str) -> layout:
    return _LAYOUTS[name]


def _format_named(name: str) -> memory_format:
    return _FORMATS[name]


def check_format(operator: str, value: Any) -> memory_format | None:
    """Return a memory format unchanged; None stays None.

    Raises:
        ArgumentTypeError: The value is not a memory format.
    """
    if value is not None and not isinstance(value, memory_format):
        raise ArgumentTypeError(operator, f"memory_format of type {type(value).__name__}",
                                "a memory format is one of the four objects of that class",
                                "pass for example tensocket.channels_last")
    return value


__all__ = ["channels_last", "channels_last_3d", "contiguous_format", "jagged", "layout", "memory_format",
           "preserve_format", "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc", "sparse_csr", "strided"]
