"""Dtypes: conversion, limits, promotion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensocket_operators as core
from tensocket_plugins.contract.dtypes import BY_NAME, DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from .promotion import KINDS, common, is_array, promoted


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """The result of ``finfo``.

    Attributes:
        bits: Number of bits of one real number.
        eps: Distance from 1 to the next number.
        max: Largest number.
        min: Smallest number.
        smallest_normal: Smallest positive number of full precision.
        dtype: The real dtype.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerLimits:
    """The result of ``iinfo``.

    Attributes:
        bits: Number of bits of one number.
        max: Largest number.
        min: Smallest number.
        dtype: The dtype.
    """

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype(value: Any) -> DType:
    if is_array(value):
        value = value.dtype
    if not isinstance(value, DType):
        raise ArgumentTypeError("dtype", f"a {type(value).__name__}", "this is a dtype or an array", "pass one of both")
    return value


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """Return an array with another dtype; with ``copy=False``, the array itself if nothing changes."""
    source = core.real(x) if x.dtype.is_complex and dtype.kind == "float" else x
    return source.to(x.device if device is None else device, dtype, copy=copy)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype promotes to another one."""
    source, target = _dtype(from_), _dtype(to)
    if source.category > target.category:
        return False
    try:
        return promoted(source, target) is target
    except core.errors.DtypeError:
        return False


def finfo(type: Any, /) -> FloatLimits:
    """Return the limits of a floating-point dtype; for a complex dtype, those of its parts.

    Raises:
        ArgumentTypeError: ``type`` is not a floating-point dtype.
    """
    info = core.finfo(_dtype(type))
    return FloatLimits(info.bits, info.eps, info.max, info.min, info.smallest_normal, BY_NAME[info.dtype])


def iinfo(type: Any, /) -> IntegerLimits:
    """Return the limits of an integer dtype.

    Raises:
        ArgumentTypeError: ``type`` is not an integer dtype.
    """
    info = core.iinfo(_dtype(type))
    return IntegerLimits(info.bits, info.max, info.min, BY_NAME[info.dtype])


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is another one, or of a kind: 'bool', 'signed integer', 'real floating' and so on.

    Raises:
        ArgumentError: The kind is unknown.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, DType):
        return dtype is kind
    if kind not in KINDS:
        raise ArgumentError("isdtype", f"kind {kind!r}", f"a kind is one of {', '.join(KINDS)}", "pass one of these")
    return dtype.kind in KINDS[kind]


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype that arrays, dtypes and numbers promote to."""
    return common(*arrays_and_dtypes)
