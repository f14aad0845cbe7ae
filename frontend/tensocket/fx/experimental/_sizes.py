"""Operations on gradual types: what fits together, and the sizes that windows leave."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ArgumentTypeError
from tensocket.nn import Module

from ..tensor_type import Dyn, TensorType, is_consistent, is_more_precise
from .unification import isvar


def expand_to_tensor_dim(t: Any, n: int) -> TensorType:
    """Return a type as one of tensors with this number of dimensions.

    Args:
        t: The type; ``Dyn`` becomes a tensor of unknown sizes.
        n: The number of dimensions.

    Raises:
        TypeError: It is the type of other values, or of another number of dimensions.
    """
    if t == Dyn:
        return TensorType((Dyn,) * n)
    if not isinstance(t, TensorType):
        raise ArgumentTypeError("type_check", f"a value of type {t}", f"Cannot match the type {t}",
                                "annotate the value with a TensorType")
    if len(t.dims) != n:
        raise ArgumentTypeError(
            "type_check", f"a tensor with {len(t.dims)} dimensions", f"Cannot extend tensor. Tensor {t} has rank "
            f"{len(t.dims)}. It should have rank {n}", "correct the annotation, or reshape the tensor")
    return t


def broadcast_types(t1: Any, t2: Any) -> tuple[Any, Any]:
    """Return two types with as many dimensions, where a size of 1 has become the other's.

    Raises:
        TypeError: One is not a type of tensors.
    """
    if any(t == Dyn or isvar(t) for t in (t1, t2)):
        return t1, t2
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        raise ArgumentTypeError("broadcast_types", f"types {t1} and {t2}", f"Cannot broadcast types {t1} and {t2}",
                                "annotate both values with a TensorType")
    rank = max(len(t1.dims), len(t2.dims))
    padded = [(*(1,) * (rank - len(t.dims)), *t.dims) for t in (t1, t2)]
    pairs = [(b if a == 1 else a, a if b == 1 else b) for a, b in zip(*padded, strict=True)]
    return TensorType(tuple(a for a, _ in pairs)), TensorType(tuple(b for _, b in pairs))


def get_greatest_upper_bound(type1: Any, type2: Any) -> Any:
    """Return the type that has all that two types know.

    Raises:
        TypeError: They contradict each other.
    """
    if not is_consistent(type1, type2):
        raise ArgumentTypeError("type_check", f"types {type1} and {type2} of one value", f"Inconsistent types {type1}, "
                                f"{type2}", "correct the annotation, or the operation that contradicts it")
    if isinstance(type1, TensorType) and isinstance(type2, TensorType):
        return TensorType(tuple(a if is_more_precise(a, b) else b
                                for a, b in zip(type1.dims, type2.dims, strict=True)))
    return type2 if type1 == Dyn else type1


def calculate_out_dimension(d_in: Any, module_instance: Module, index: int) -> Any:
    """Return how many windows of a convolution or pooling fit into a size.

    Args:
        d_in: The size: a number, ``Dyn`` or an expression of sympy.
        module_instance: The module.
        index: Number of the dimension among those of the windows.

    Raises:
        TypeError: It is not a size, or no window fits.
    """
    if d_in == Dyn:
        return Dyn
    if not isinstance(d_in, int) and not hasattr(d_in, "free_symbols"):
        raise ArgumentTypeError(
            "type_check", f"a size of type {type(d_in).__name__}", f"{d_in} in {module_instance} must be a number or "
            f"Dyn. Received {type(d_in)}", "annotate unknown sizes with Dyn")
    kernel, stride, padding, dilation = (_setting(module_instance, name, index)
                                         for name in ("kernel_size", "stride", "padding", "dilation"))
    span = dilation * (kernel - 1) + 1
    both = {"same": span - 1, "valid": 0}[padding] if isinstance(padding, str) else 2 * padding
    room = d_in + both - span
    if isinstance(room, int) and room < 0:
        raise ArgumentTypeError(
            "type_check", f"{module_instance}, whose windows span {span}, on {d_in + both} elements with padding",
            "Kernel size can't be greater than actual input size", "give larger inputs, or smaller windows")
    if not getattr(module_instance, "ceil_mode", False):
        return room // stride + 1
    windows = -(-room // stride) + 1
    return windows - 1 if (windows - 1) * stride >= d_in + padding else windows  # one begins behind the input


def _setting(module: Any, name: str, index: int) -> Any:
    value = getattr(module, name)
    return value[index] if isinstance(value, tuple | list) else value


__all__ = ["broadcast_types", "calculate_out_dimension", "expand_to_tensor_dim", "get_greatest_upper_bound"]
