"""Checks that exported graphs hold, under PyTorch's names: of values, of ranges of sizes, and of forms of tensors."""

from __future__ import annotations

from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentError, DtypeError

#: The largest size.
_MOST: Final = 2**63 - 1


def assert_scalar(self: Any, assert_msg: str) -> None:
    """Check that a number is not zero.

    Raises:
        RuntimeError: It is; the text is the given one.
    """
    if not self:
        raise RuntimeError(assert_msg)


def assert_async(self: Any, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Check that the only element of a tensor is not zero.

    Raises:
        RuntimeError: It is; the text is the given one.
    """
    assert_scalar(bool(self), assert_msg)


def assert_tensor_metadata(a: Any, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None,
                           layout: Any = None) -> None:
    """Check a tensor's sizes, strides, dtype, device and layout, of those that are given.

    Raises:
        ArgumentError: One is another.
    """
    for name, wanted, found in (("sizes", size, list(a.shape)), ("strides", stride, list(a.stride())),
                                ("dtype", dtype, a.dtype), ("device", device and str(device), str(a.device)),
                                ("layout", layout, a.layout)):
        if wanted is not None and (list(wanted) if isinstance(found, list) else wanted) != found:
            raise ArgumentError("_assert_tensor_metadata", f"Expected: {wanted}, Got: {found}",
                                f"Tensor {name} mismatch! A graph runs on tensors of the form it was made for",
                                "pass such a tensor, or make the graph anew")


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Check that a number is in a range.

    Raises:
        ArgumentError: It is not, or no number is in the range.
    """
    least, most = -_MOST - 1 if min is None else min, _MOST if max is None else max
    if most < least:
        raise ArgumentError("sym_constrain_range", f"min={min} max={max}", "Max must be greater than or equal to min",
                            "exchange them")
    if not least <= size <= most:
        raise ArgumentError("sym_constrain_range", f"{size}", f"Invalid value range for {size} between [{least}, "
                            f"{most}]", "pass a number in the range")


def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Check that a size is in a range, by default that it is not negative.

    Raises:
        ArgumentError: It is not, or the largest size is 2 or less.
    """
    if max is not None and max <= 2:
        raise ArgumentError("sym_constrain_range_for_size", f"got: {max}",
                            "Max value to constrain_range_for_size must be greater than 2", "pass a larger one")
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def is_all_true(self: Any) -> Any:
    """Return whether all elements of a tensor of bools are true, as a tensor.

    Raises:
        DtypeError: The tensor has another dtype.
    """
    return _bools(self, "_is_all_true").all()


def is_any_true(self: Any) -> Any:
    """Return whether any element of a tensor of bools is true, as a tensor.

    Raises:
        DtypeError: The tensor has another dtype.
    """
    return _bools(self, "_is_any_true").any()


def _bools(tensor: Any, name: str) -> Any:
    if tensor.dtype.name != "bool":
        raise DtypeError(name, tensor.dtype.name, "the tensor has truth values", "compare first")
    return tensor


#: The checks by PyTorch's names.
GRAPH_CHECKS: Final = {
    "_assert_scalar": assert_scalar, "_assert_async": assert_async, "_assert_tensor_metadata": assert_tensor_metadata,
    "sym_constrain_range": sym_constrain_range, "sym_constrain_range_for_size": sym_constrain_range_for_size,
    "_is_all_true": is_all_true, "_is_any_true": is_any_true,
}

__all__ = ["GRAPH_CHECKS"]
