"""Classes of pairs, with which test suites extend ``assert_close`` to objects of their own.

A pair of values refuses values that it is not for by raising ``UnsupportedInputs``; the first class that takes two
values compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import tensocket
from tensocket.errors import ArgumentError

from .comparison import NUMBERS, Checks, compare_attributes, compare_numbers, compare_values, is_sequence


class UnsupportedInputs(Exception):
    """Two values that a class of pairs does not compare."""


class ErrorMeta(Exception):
    """A description of an error.

    Args:
        type: The class of the error.
        msg: Its text.
        id: The keys and indices that lead to the values.
    """

    def __init__(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> None:
        super().__init__(msg)
        self.type, self.msg, self.id = type, msg, id

    def to_error(self, msg: str | Callable[[str], str] | None = None) -> Exception:
        """Return the error, with another text if one is given."""
        place = "".join(f"[{part!r}]" for part in self.id)
        text = f"{self.msg}\n\nThe failure occurred for item {place}" if place else self.msg
        return self.type(text if msg is None else msg(text) if callable(msg) else msg)


class Pair:
    """Two values to compare; the base class of all pairs.

    Args:
        actual: The value under test.
        expected: The correct value.
        id: The keys and indices that lead to them.
        unknown_parameters: Options of other classes.
    """

    def __init__(self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), **unknown_parameters: Any) -> None:
        self.actual, self.expected, self.id = actual, expected, id

    @staticmethod
    def _inputs_not_supported() -> NoReturn:
        raise UnsupportedInputs

    @staticmethod
    def _check_inputs_isinstance(*inputs: Any, cls: type | tuple[type, ...]) -> None:
        if not all(isinstance(value, cls) for value in inputs):
            Pair._inputs_not_supported()

    def _fail(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> NoReturn:
        raise ErrorMeta(type, msg, id=self.id or id)

    def _fail_if(self, problem: str) -> None:
        if problem:
            self._fail(AssertionError, problem)

    def compare(self) -> None:
        """Raise ``ErrorMeta`` if the values differ."""
        raise NotImplementedError


class ObjectPair(Pair):
    """Two objects that are compared with ``==``."""

    def compare(self) -> None:
        """Raise ``ErrorMeta`` if the values differ."""
        self._fail_if("" if self.actual == self.expected
                      else f"Object comparison failed: {self.actual} != {self.expected}")


class NonePair(Pair):
    """A None and another value."""

    def __init__(self, actual: Any, expected: Any, **other_parameters: Any) -> None:
        if actual is not None and expected is not None:
            self._inputs_not_supported()
        super().__init__(actual, expected, **other_parameters)

    def compare(self) -> None:
        """Raise ``ErrorMeta`` unless both values are None."""
        self._fail_if("" if self.actual is self.expected else f"None mismatch: {self.actual} is not {self.expected}")


class BooleanPair(Pair):
    """Two bools."""

    _supported_types: tuple[type, ...] = NUMBERS[:1]

    def __init__(self, actual: Any, expected: Any, **other_parameters: Any) -> None:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        super().__init__(actual, expected, **other_parameters)

    def compare(self) -> None:
        """Raise ``ErrorMeta`` if the values differ."""
        self._fail_if("" if bool(self.actual) is bool(self.expected)
                      else f"Booleans mismatch: {self.actual} is not {self.expected}")


class _ClosePair(Pair):
    """Two values that are compared within tolerances."""

    def __init__(self, actual: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None,
                 equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True,
                 check_layout: bool = True, check_stride: bool = False, **other_parameters: Any) -> None:
        super().__init__(actual, expected, **other_parameters)
        if (rtol is None) != (atol is None):
            raise ArgumentError("assert_close", f"rtol={rtol}, atol={atol}", "both tolerances are given, or none",
                                "pass the other one, too")
        self.rtol, self.atol, self.equal_nan = rtol, atol, equal_nan
        self.check_device, self.check_dtype = check_device, check_dtype
        self.check_layout, self.check_stride = check_layout, check_stride

    @property
    def _checks(self) -> Checks:
        return Checks(self.rtol, self.atol, self.equal_nan, self.check_device, self.check_dtype, self.check_layout,
                      self.check_stride)


class NumberPair(_ClosePair):
    """Two numbers; dtypes are compared only on request."""

    _supported_types: tuple[type, ...] = NUMBERS[1:]

    def __init__(self, actual: Any, expected: Any, *, check_dtype: bool = False, **other_parameters: Any) -> None:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        super().__init__(actual, expected, check_dtype=check_dtype, **other_parameters)

    def compare(self) -> None:
        """Raise ``ErrorMeta`` if the numbers are not close."""
        self._fail_if(compare_numbers(self.actual, self.expected, self._checks))


class TensorLikePair(_ClosePair):
    """Two tensors, or values that become tensors.

    Args:
        actual: The value under test.
        expected: The correct value.
        id: The keys and indices that lead to them.
        allow_subclasses: Whether the two may be of different classes, one below the other.
        other_parameters: The tolerances and checks of ``assert_close``.
    """

    def __init__(self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), allow_subclasses: bool = True,
                 **other_parameters: Any) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id, allow_subclasses=allow_subclasses)
        super().__init__(actual, expected, id=id, **other_parameters)

    def _process_inputs(self, actual: Any, expected: Any, *, id: tuple[Any, ...],
                        allow_subclasses: bool) -> tuple[Any, Any]:
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not (related if allow_subclasses else type(actual) is type(expected)):
            self._inputs_not_supported()
        return self._to_tensor(actual), self._to_tensor(expected)

    def _to_tensor(self, tensor_like: Any) -> Any:
        if isinstance(tensor_like, tensocket.Tensor):
            return tensor_like
        try:
            return tensocket.as_tensor(tensor_like)
        except (TypeError, ValueError, RuntimeError):
            self._inputs_not_supported()

    def compare(self) -> None:
        """Raise ``ErrorMeta`` if the tensors are not close."""
        actual, expected = self.actual, self.expected
        self._compare_attributes(actual, expected)
        if not (actual.is_meta or expected.is_meta):
            self._compare_values(*self._equalize_attributes(actual, expected))

    def _compare_attributes(self, actual: Any, expected: Any) -> None:
        self._fail_if(compare_attributes(actual, expected, self._checks))

    def _equalize_attributes(self, actual: Any, expected: Any) -> tuple[Any, Any]:
        """Return both tensors on one device and with one dtype and layout."""
        if actual.device != expected.device:
            actual, expected = actual.cpu(), expected.cpu()
        if actual.dtype != expected.dtype:
            dtype = tensocket.promote_types(actual.dtype, expected.dtype)
            actual, expected = actual.to(dtype), expected.to(dtype)
        if actual.layout != expected.layout:
            actual, expected = (t if t.layout is tensocket.strided else t.to_dense() for t in (actual, expected))
        return actual, expected

    def _compare_values(self, actual: Any, expected: Any) -> None:
        self._fail_if(compare_values(actual, expected, self._checks))


def originate_pairs(actual: Any, expected: Any, *, pair_types: Sequence[type[Pair]],
                    sequence_types: tuple[type, ...] = (Sequence,), mapping_types: tuple[type, ...] = (Mapping,),
                    id: tuple[Any, ...] = (), **options: Any) -> list[Pair]:
    """Return the pairs of two values: of containers, those of their elements.

    Args:
        actual: The value under test.
        expected: The correct value.
        pair_types: The classes of pairs to try, in this order.
        sequence_types: Classes whose elements are compared in order.
        mapping_types: Classes whose values are compared by key.
        id: The keys and indices that lead to the values.
        options: Options of the classes.

    Raises:
        ErrorMeta: Containers have other keys or lengths, or no class takes two values.
    """
    kinds: dict[str, Any] = {"pair_types": pair_types, "sequence_types": sequence_types, "mapping_types": mapping_types}
    keys: Any
    if is_sequence(actual, sequence_types) and is_sequence(expected, sequence_types):
        if len(actual) != len(expected):
            raise ErrorMeta(AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}",
                            id=id)
        keys = range(len(actual))
    elif all(isinstance(value, mapping_types) for value in (actual, expected)):
        if set(actual) != set(expected):
            raise ErrorMeta(AssertionError, "The keys of the mappings do not match:\n"
                            f"Missing keys in the actual mapping: {sorted(set(expected) - set(actual), key=repr)}\n"
                            f"Additional keys in the actual mapping: {sorted(set(actual) - set(expected), key=repr)}",
                            id=id)
        keys = list(expected)
    else:
        return [_pair(actual, expected, pair_types, id, options)]
    return [pair for key in keys
            for pair in originate_pairs(actual[key], expected[key], id=(*id, key), **kinds, **options)]


def _pair(actual: Any, expected: Any, pair_types: Sequence[type[Pair]], id: tuple[Any, ...],
          options: dict[str, Any]) -> Pair:
    for kind in pair_types:
        try:
            return kind(actual, expected, id=id, **options)
        except UnsupportedInputs:
            continue
    text = f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
    raise ErrorMeta(TypeError, text, id=id)


def not_close_error_metas(actual: Any, expected: Any, *, pair_types: Sequence[type[Pair]] = (ObjectPair,),
                          sequence_types: tuple[type, ...] = (Sequence,), mapping_types: tuple[type, ...] = (Mapping,),
                          **options: Any) -> list[ErrorMeta]:
    """Return descriptions of all differences between two values.

    Args:
        actual: The value under test.
        expected: The correct value.
        pair_types: The classes of pairs to try, in this order.
        sequence_types: Classes whose elements are compared in order.
        mapping_types: Classes whose values are compared by key.
        options: Options of the classes.

    Raises:
        Exception: No class takes two values, or containers have other keys or lengths.
    """
    try:
        pairs = originate_pairs(actual, expected, pair_types=pair_types, sequence_types=sequence_types,
                                mapping_types=mapping_types, **options)
    except ErrorMeta as problem:
        raise problem.to_error() from None
    found: list[ErrorMeta] = []
    for pair in pairs:
        try:
            pair.compare()
        except ErrorMeta as problem:
            found.append(problem)
    return found


__all__ = ["BooleanPair", "ErrorMeta", "NonePair", "NumberPair", "ObjectPair", "Pair", "TensorLikePair",
           "UnsupportedInputs", "not_close_error_metas", "originate_pairs"]
