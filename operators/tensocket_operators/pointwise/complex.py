"""Complex numbers: their parts, conjugates and magnitudes; see ``autograd.conjugate`` for their gradients."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.autograd.conjugate import wirtinger
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.geometry import element_strides
from tensocket_core.keys import CONJ, NEG
from tensocket_core.launch.kernel_handles import parts_handle
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import DtypeError, ShapeError
from tensocket_plugins.ir.element_types import COMPONENT

from ..kinds.composite import composite
from ..kinds.pointwise import Pointwise
from ..kinds.view import LazyView, RetypedView
from ..tensor_methods.complex import warn_of_number

_PARTS_OF_SIZE: Final = {dtype.itemsize: part for dtype, part in COMPONENT.items()}
_OF_PARTS: Final[dict[DType, DType]] = {part: dtype for dtype, part in COMPONENT.items()}


# ----------------------------------------------------------------------------------------------------------- views


def _pairs(array: Any) -> Any:
    """Return the handle of a complex tensor with a last dimension for its parts."""
    return parts_handle(array, _PARTS_OF_SIZE[array.dtype.itemsize])


def _joined(array: Any) -> Any:
    """Return the handle of a float tensor with a last dimension of 2 as complex numbers."""
    strides = element_strides(array)
    if isinstance(array, DeviceArray):
        halves = tuple(s // 2 for s in strides[:-1])
        return DeviceArray(array.storage, _OF_PARTS[array.dtype], array.shape[:-1], halves, array.offset // 2)
    return array.view(np.uint32 if array.itemsize == 2 else f"c{2 * array.itemsize}")[..., 0]


real_part: Final = RetypedView(
    "real_part(Tensor input) -> Tensor~", "The real parts of complex numbers.", lambda array: _pairs(array)[..., 0],
    COMPONENT, method=False, function=False, derivative=wirtinger(Derivative(input=lambda grad: grad)))
imag_part: Final = RetypedView(
    "imag_part(Tensor input) -> Tensor~", "The imaginary parts of complex numbers.",
    lambda array: _pairs(array)[..., 1], COMPONENT, conjugates=True, method=False, function=False,
    derivative=wirtinger(Derivative(input=lambda grad: grad * 1j)))
pairs: Final = RetypedView(
    "view_as_real(Tensor input) -> Tensor~", "Complex numbers as pairs of floats.", _pairs, COMPONENT, refuses=CONJ,
    method=False, function=False,
    derivative=wirtinger(Derivative(input=lambda grad: functions.view_as_complex(grad.contiguous().resolve_neg()))))
joined: Final = RetypedView(
    "view_as_complex(Tensor input) -> Tensor~", "Pairs of floats as complex numbers.", _joined, _OF_PARTS, refuses=NEG,
    method=False, function=False,
    derivative=wirtinger(Derivative(input=lambda grad: functions.view_as_real(grad.resolve_conj()))))
conjugated: Final = LazyView(
    "conj(Tensor input) -> Tensor~", "The same memory as complex conjugates.", CONJ, method=False, function=False,
    derivative=Derivative(input=lambda grad: grad.conj()))
negated: Final = LazyView(
    "_neg_view(Tensor input) -> Tensor~", "The same memory as the negatives of its elements, a view.", NEG,
    derivative=Derivative(input=lambda grad: -grad))


@composite("real(Tensor input) -> Tensor~", method=False)
def real(input: Any) -> Any:
    """Return the real parts as a view; a real tensor returns itself."""
    return call(real_part, input) if input.dtype.is_complex else input


@composite("imag(Tensor input) -> Tensor~", method=False)
def imag(input: Any) -> Any:
    """Return the imaginary parts of a complex tensor as a view.

    Raises:
        DtypeError: The tensor is real.
    """
    return call(imag_part, _complex_only("imag", input))


@composite("view_as_real(Tensor input) -> Tensor~", method=False)
def view_as_real(input: Any) -> Any:
    """Return a complex tensor as a view of floats, with a last dimension of size 2 for the two parts.

    Raises:
        DtypeError: The tensor is real, or a conjugated view.
    """
    return call(pairs, _complex_only("view_as_real", input))


def _complex_only(operator: str, input: Any) -> Any:
    if not input.dtype.is_complex:
        raise DtypeError(operator, f"a tensor of dtype {input.dtype.name}", f"{operator} is defined for complex dtypes",
                         "convert with .to(tensocket.complex64)")
    return input


@composite("view_as_complex(Tensor input) -> Tensor~", method=False, by_layout="owners")
def view_as_complex(input: Any) -> Any:
    """Return a float tensor as a view of complex numbers; the last dimension holds the two parts.

    Raises:
        DtypeError: The dtype is not float16, float32 or float64.
        ShapeError: The last dimension does not have two adjacent elements, the offset is odd, or so is the stride of
            another dimension of several elements.
    """
    if input.dtype not in _OF_PARTS:
        raise DtypeError("view_as_complex", f"a tensor of dtype {input.dtype.name}",
                         "parts are float16, float32 or float64", "convert with .to(tensocket.float32)")
    strides = element_strides(input._array)
    shape = f"shape {list(input.shape)} with strides {list(strides)}"
    if not strides or input._array.shape[-1] != 2:
        raise ShapeError("view_as_complex", shape, "the last dimension has size 2", "stack the two parts")
    odd = any(s % 2 and n != 1 for n, s in zip(input._array.shape[:-1], strides[:-1], strict=True))
    if strides[-1] != 1 or odd or input.storage_offset() % 2:
        raise ShapeError("view_as_complex", shape, "parts are adjacent, other strides and the offset even",
                         "call .contiguous() first")
    return call(joined, input)


# ------------------------------------------------------------------------------------------------------- functions

conjugate: Final = Pointwise(
    "conj_physical(Tensor input) -> Tensor", "Complex conjugates, as a new tensor.",
    lambda m, x: m.conj(x) if m.dtype.is_complex else x, kinds="bifc", inplace=True, method=False, function=False,
    derivative=wirtinger(Derivative(input=lambda grad: grad.conj_physical())))


@composite("conj_physical(Tensor input) -> Tensor~")
def conj_physical(input: Any) -> Any:
    """Return complex conjugates as a new tensor; a real tensor returns itself."""
    return call(conjugate, input) if input.dtype.is_complex else input


@composite("conj(Tensor input) -> Tensor~")
def conj(input: Any) -> Any:
    """Return complex conjugates as a marked view of the same memory (``is_conj``); a real tensor returns itself."""
    if not input.dtype.is_complex:
        return input
    return call(conjugate if input.is_sparse else conjugated, input)


@composite("_conj(Tensor input) -> Tensor~", method=False)
def _conj(input: Any) -> Any:
    """Return ``conj`` of a complex tensor.

    Raises:
        DtypeError: The tensor is real.
    """
    return conj(_complex_only("_conj", input))


@composite("resolve_conj(Tensor input) -> Tensor~")
def resolve_conj(input: Any) -> Any:
    """Return a copy of a conjugated view with the conjugates in memory; any other tensor returns itself."""
    return input.clone() if input._key & CONJ else input


@composite("resolve_neg(Tensor input) -> Tensor~")
def resolve_neg(input: Any) -> Any:
    """Return a copy of a negated view with the negatives in memory; any other tensor returns itself."""
    return input.clone() if input._key & NEG else input


@composite("is_conj(Tensor input) -> any", lazy=True)
def is_conj(input: Any) -> bool:
    """Whether memory holds the conjugates of the elements: true of a complex tensor that is a view by ``conj``."""
    return bool(input._key & CONJ)


@composite("is_neg(Tensor input) -> any", lazy=True)
def is_neg(input: Any) -> bool:
    """Whether memory holds the negatives of the elements, as for the imaginary part of a conjugated view."""
    return bool(input._key & NEG)


def _angle(m: Any, x: Any) -> Any:
    if m.dtype.is_complex:
        return m.angle(x)
    return m.where(m.ne(x, x), x, m.where(x < 0, math.pi, 0.0))


def _angle_gradient(grad: Any, input: Any) -> Any:
    """Return the gradient: the angle changes by 1 / |z| along i z / |z|."""
    if not input.is_complex():
        return grad * 0
    return (grad / (input.real.square() + input.imag.square()) * (input * 1j)).masked_fill(input == 0, 0)


angle: Final = Pointwise(
    "angle(Tensor input) -> Tensor", "Angle of complex numbers with the positive real axis, within -pi .. pi.", _angle,
    compute="float", kinds="fc", result="real", derivative=wirtinger(Derivative(input=_angle_gradient)))


def _sgn(m: Any, x: Any) -> Any:
    if m.dtype.is_complex:
        return m.sgn(x)
    return x if m.dtype is dtypes.bool_ else m.where(x > 0, 1, 0) - m.where(x < 0, 1, 0)


def _sgn_gradient(grad: Any, input: Any, result: Any) -> Any:
    """Return the part of the gradient perpendicular to the direction, divided by the magnitude."""
    if not input.is_complex():
        return grad * 0
    across = grad - (grad * result.conj()).real * result
    return (across / input.abs()).masked_fill(input == 0, 0)


sgn: Final = Pointwise(
    "sgn(Tensor input) -> Tensor", "Direction of complex numbers: input / |input|, 0 of 0; the sign of real ones.",
    _sgn, kinds="bifc", inplace=True, derivative=wirtinger(Derivative(input=_sgn_gradient)))
combined: Final = Pointwise(
    "complex(Tensor real, Tensor imag) -> Tensor", "Complex numbers of their parts.",
    lambda m, x, y: m.complex(x, y), kinds="f", result="complex", method=False, function=False,
    derivative=wirtinger(Derivative(real=lambda grad: grad.real, imag=lambda grad: grad.imag)))


@composite("complex(Tensor real, Tensor imag) -> Tensor", method=False)
def complex(real: Any, imag: Any) -> Any:
    """Return complex numbers with the given real and imaginary parts, both float16, float32 or float64.

    Raises:
        DtypeError: The dtypes differ or are not among these.
    """
    if real.dtype not in _OF_PARTS or imag.dtype is not real.dtype:
        raise DtypeError("complex", f"parts of dtypes {real.dtype.name} and {imag.dtype.name}",
                         "parts are both float16, float32 or float64", "convert them with .to(dtype)")
    return call(combined, real, imag)


@composite("polar(Tensor abs, Tensor angle) -> Tensor", method=False)
def polar(abs: Any, angle: Any) -> Any:
    """Return complex numbers with the given magnitudes and angles: abs * (cos(angle) + i sin(angle))."""
    if abs.dtype not in _OF_PARTS or angle.dtype is not abs.dtype:
        raise DtypeError("polar", f"magnitudes of dtype {abs.dtype.name} and angles of dtype {angle.dtype.name}",
                         "both are float16, float32 or float64", "convert them with .to(dtype)")
    return call(combined, abs * angle.cos(), abs * angle.sin())


@composite("isreal(Tensor input) -> Tensor")
def isreal(input: Any) -> Any:
    """Whether elements have no imaginary part."""
    return input.imag == 0 if input.dtype.is_complex else input.new_ones(tuple(input.shape), dtype=dtypes.bool_)


@composite("adjoint(Tensor input) -> Tensor~")
def adjoint(input: Any) -> Any:
    """Return conjugate transposes, with the last two dimensions swapped; a number is conjugated, with a warning.

    Raises:
        ShapeError: The tensor is a vector.
    """
    if input.ndim == 0:
        warn_of_number("adjoint")
        return input.conj()
    if input.ndim < 2:
        raise ShapeError("adjoint", f"a {input.ndim}-dimensional tensor", "matrices have at least 2 dimensions",
                         "unsqueeze it first")
    return input.transpose(-2, -1).conj()


@composite("is_complex(Tensor input) -> any", method=False)
def is_complex(input: Any) -> bool:
    """Whether the dtype is complex."""
    return bool(input.dtype.is_complex)
