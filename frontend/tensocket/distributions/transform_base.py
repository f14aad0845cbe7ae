"""The base class of all transforms: calls, inverses, a cache of the last pair of argument and result."""

from __future__ import annotations

import weakref
from typing import Any

from ..errors import ArgumentError, NoClosedForm
from . import constraints


class Transform:
    """A function with an inverse and ``log |det dy/dx|``.

    Subclasses define ``_call``, ``_inverse`` and ``log_abs_det_jacobian``.

    Attributes:
        domain: Constraint on its arguments.
        codomain: Constraint on its results.
        bijective: Whether it is one-to-one.
        sign: 1 if it increases, -1 if it decreases.

    Args:
        cache_size: 1 keeps the last pair of argument and result, so that inverses are exact.

    Raises:
        ArgumentError: The size is neither 0 nor 1.
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ArgumentError("Transform", f"cache_size={cache_size}", "the cache holds no pair or one",
                                "pass 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> Any:
        """Number of event dimensions of its arguments and results.

        Raises:
            ArgumentError: They differ.
        """
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ArgumentError(type(self).__name__, f"events of {self.domain.event_dim} and {self.codomain.event_dim} "
                            "dimensions", "event_dim is that of both sides", "use domain.event_dim")

    @property
    def inv(self) -> Any:
        """The inverse."""
        known = None if self._inv is None else self._inv()
        if known is None:
            known = _InverseTransform(self)
            self._inv = weakref.ref(known)
        return known

    @property
    def sign(self) -> Any:
        """1 if the transform increases, -1 if it decreases.

        Raises:
            NoClosedForm: It is not monotone.
        """
        raise NoClosedForm(type(self).__name__, "sign", "a transform with a sign is monotone", "do not ask for it")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache.

        Raises:
            NoClosedForm: A subclass has a constructor of its own, but no ``with_cache``.
        """
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NoClosedForm(type(self).__name__, "a subclass with a constructor of its own",
                           "it defines with_cache, too", "define with_cache(cache_size)")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, x: Any) -> Any:
        """Return the value of the function."""
        if not self._cache_size:
            return self._call(x)
        old_x, old_y = self._cached_x_y
        if x is old_x:
            return old_y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if not self._cache_size:
            return self._inverse(y)
        old_x, old_y = self._cached_x_y
        if y is old_y:
            return old_x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _missing(self, what: str) -> NoClosedForm:
        return NoClosedForm(type(self).__name__, what, "the transform defines it", "define it in the subclass")

    def _call(self, x: Any) -> Any:
        raise self._missing("_call")

    def _inverse(self, y: Any) -> Any:
        raise self._missing("_inverse")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return ``log |det dy/dx|`` of a pair, one value for each event."""
        raise self._missing("log_abs_det_jacobian")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the result."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the argument."""
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform, which holds it."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """Return the transform's codomain."""
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """Return the transform's domain."""
        return self._inv.domain

    @property
    def bijective(self) -> Any:
        """Whether the transform is one-to-one."""
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        """The transform's sign."""
        return self._inv.sign

    @property
    def inv(self) -> Any:
        """The transform."""
        return self._inv

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the same transform with a cache."""
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = Transform.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return minus the transform's value."""
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the result."""
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the argument."""
        return self._inv.forward_shape(shape)


__all__ = ["Transform"]
