"""Combinations of transforms: composition, more event dimensions, concatenation, stacking."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import tensocket as torch

from ..errors import ArgumentError
from . import constraints
from .transform_base import Transform
from .utils import sum_rightmost


class ComposeTransform(Transform):
    """A composition of transforms.

    Args:
        parts: The first one first.
        cache_size: 1 keeps the last pair of values.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = Transform.__hash__

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """Return the domain of the first part, over as many dimensions as the others need."""
        if not self.parts:
            return constraints.real
        domain = self.parts[0].domain
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        more = dims - domain.event_dim
        return constraints.independent(domain, more) if more else domain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """Return the codomain of the last part, over as many dimensions as the others have."""
        if not self.parts:
            return constraints.real
        codomain = self.parts[-1].codomain
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        more = dims - codomain.event_dim
        return constraints.independent(codomain, more) if more else codomain

    @property
    def bijective(self) -> Any:
        """Whether all parts are one-to-one."""
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        """The product of the parts' signs."""
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Any:
        """The inverse parts, the last one first."""
        known = None if self._inv is None else self._inv()
        if known is None:
            known = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(known)
            known._inv = weakref.ref(self)
        return known

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache."""
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Any) -> Any:
        """Return the value of the last part."""
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return the sum over the parts."""
        if not self.parts:
            return torch.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        result: Any = 0
        dims = self.domain.event_dim
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            result = result + sum_rightmost(part.log_abs_det_jacobian(before, after), dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
        return result

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the result."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the argument."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose events are several events of a base transform.

    Args:
        base_transform: The base transform.
        reinterpreted_batch_ndims: Number of dimensions that an event has in addition.
        cache_size: 1 keeps the last pair of values.
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache."""
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """Return the base's domain, over more event dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """Return the base's codomain, over more event dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:
        """Whether the base transform is one-to-one."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        """The sign of the base transform."""
        return self.base_transform.sign

    def _checked(self, value: Any, dims: int) -> Any:
        if value.dim() < dims:
            raise ArgumentError("IndependentTransform", f"a value of {value.dim()} dimensions",
                                f"an event has at least {dims} dimensions", "add dimensions")
        return value

    def _call(self, x: Any) -> Any:
        return self.base_transform(self._checked(x, self.domain.event_dim))

    def _inverse(self, y: Any) -> Any:
        return self.base_transform.inv(self._checked(y, self.codomain.event_dim))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return the base's value, summed over each event."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the result."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the argument."""
        return self.base_transform.inverse_shape(shape)


class _Joined(Transform):
    """Transforms of slices along a dimension."""

    transforms: list[Transform]
    dim: int

    @property
    def bijective(self) -> Any:
        """Whether all transforms are one-to-one."""
        return all(t.bijective for t in self.transforms)


class CatTransform(_Joined):
    """Parts of given lengths along a dimension, each with a transform of its own.

    Args:
        tseq: The transforms.
        dim: The dimension.
        lengths: Lengths of the parts; 1 each if not given.
        cache_size: 1 keeps the last pair of values.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
                 cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def event_dim(self) -> Any:
        """The largest number of event dimensions."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The sum of the lengths."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache."""
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value: Any) -> list[Any]:
        if value.size(self.dim) != self.length:
            raise ArgumentError("CatTransform", f"a value of shape {tuple(value.shape)}",
                                f"dimension {self.dim} has {self.length} elements", "pass fitting values")
        return list(value.split(self.lengths, self.dim))

    def _call(self, x: Any) -> Any:
        return torch.cat([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return torch.cat([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return the parts' values, concatenated, or their sum if the dimension belongs to an event."""
        results = []
        for transform, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            value = transform.log_abs_det_jacobian(before, after)
            results.append(sum_rightmost(value, self.event_dim - transform.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        return torch.cat(results, dim) if dim < 0 else sum(results)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Return the joined domains."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Return the joined codomains."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Joined):
    """Positions along a dimension, each with a transform of its own.

    Args:
        tseq: The transforms.
        dim: The dimension.
        cache_size: 1 keeps the last pair of values.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache."""
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, value: Any) -> list[Any]:
        if value.size(self.dim) != len(self.transforms):
            raise ArgumentError("StackTransform", f"a value of shape {tuple(value.shape)}",
                                f"dimension {self.dim} has {len(self.transforms)} elements", "pass fitting values")
        return list(value.unbind(self.dim))

    def _call(self, x: Any) -> Any:
        return torch.stack([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return torch.stack([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return the positions' values, stacked."""
        pairs = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return torch.stack([t.log_abs_det_jacobian(a, b) for t, a, b in pairs], self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Return the joined domains."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Return the joined codomains."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
