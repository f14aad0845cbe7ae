"""Which sizes of the inputs may change: ``Dim``, and the dynamic shapes that programs give to ``export``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tensocket.errors import ExportError
from tensocket.utils._pytree import tree_flatten_with_path, tree_leaves
from tensocket_operators import Tensor


class _DimHint:
    """A size without a name: ``Dim.AUTO``, ``Dim.DYNAMIC`` or ``Dim.STATIC``; calling it sets a range."""

    def __init__(self, kind: str, min: int | None = None, max: int | None = None) -> None:
        self.kind, self.min, self.max = kind, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> _DimHint:
        """Return the same hint with a range."""
        return _DimHint(self.kind, min, max)

    def __repr__(self) -> str:
        return f"DimHint({self.kind})"


class Dim:
    """A name for a size that may change. ``2 * dim`` and ``dim + 1`` are sizes that follow from it.

    Args:
        name: The name, an identifier.
        min: Smallest size, 0 by default.
        max: Largest size, unlimited by default.

    Raises:
        ExportError: The name is not an identifier, or no size is in the range.
    """

    AUTO: Final = _DimHint("AUTO")
    DYNAMIC: Final = _DimHint("DYNAMIC")
    STATIC: Final = _DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not str(name).isidentifier():
            raise ExportError("Dim", f"the name {name!r}", f"Dim name must be a valid identifier, got {name}",
                              "use letters, digits and underscores")
        self.__name__ = name
        self.min: int = 0 if min is None else min
        self.max: float = float("inf") if max is None else max
        if self.max < self.min:
            raise ExportError("Dim", f"min={min} and max={max}", "Cannot create Dim with inconsistent min and max",
                              "let max be at least min")

    @property
    def root(self) -> Dim:
        """The dimension itself."""
        return self

    def size(self, root: int) -> int:
        """Return the size for a size of the root."""
        return root

    def expression(self, root: Any) -> Any:
        """Return the expression of the size in that of the root."""
        return root

    def __add__(self, other: int) -> _DerivedDim:
        return self._derived(1, other, "+", other)

    __radd__ = __add__

    def __sub__(self, other: int) -> _DerivedDim:
        return self._derived(1, -other, "-", other)

    def __mul__(self, other: int) -> _DerivedDim:
        if type(other) is int and other <= 0:
            raise ExportError("Dim", f"{other} * {self.__name__}", "Attempted to multiply a dim with a number that is "
                              "not positive (sizes would not grow with the dim)", "use a positive factor")
        return self._derived(other, 0, "*", other)

    __rmul__ = __mul__

    def _derived(self, factor: int, offset: int, sign: str, other: int) -> _DerivedDim:
        if type(other) is not int:
            raise ExportError("Dim", f"{self.__name__} {sign} {other!r}", "Attempted to combine a Dim with "
                              f"{other!r}, where an integer was expected. (Only increasing linear operations with "
                              "integer coefficients are supported.)", "use an integer")
        return _DerivedDim(self.root, factor, offset, self)

    def __repr__(self) -> str:
        return f"Dim('{self.__name__}', min={self.min}, max={self.max})"


class _DerivedDim(Dim):
    """A size that follows from another one: ``factor * root + offset``."""

    def __init__(self, root: Dim, factor: int, offset: int, of: Dim) -> None:
        if isinstance(of, _DerivedDim):
            factor, offset = of.factor * factor, of.offset * factor + offset
        self._root = root
        self.factor: int = factor
        self.offset: int = offset
        text = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        self.__name__ = text if not offset else f"{text} {'+' if offset > 0 else '-'} {abs(offset)}"
        self.min, self.max = factor * root.min + offset, factor * root.max + offset

    @property
    def root(self) -> Dim:
        """The dimension that it follows from."""
        return self._root

    def size(self, root: int) -> int:
        """Return the size for a size of the root."""
        return self.factor * root + self.offset

    def expression(self, root: Any) -> Any:
        """Return the expression of the size in that of the root."""
        product = root if self.factor == 1 else ("mul", self.factor, root)
        return product if not self.offset else ("add", product, self.offset)

    def root_size(self, size: int) -> int | None:
        """Return the size of the root; None if no integer gives the size."""
        found, left = divmod(size - self.offset, self.factor)
        return found if not left else None

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Return several dimensions with the same range."""
    return tuple([Dim(name, min=min, max=max) for name in names])


class ShapesCollection:
    """Dynamic shapes by tensor: ``shapes[x] = {0: dim}``, for arguments in deep containers."""

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        self._shapes[id(t)] = t, shape

    def __getitem__(self, t: Any) -> Any:
        return self._shapes.setdefault(id(t), (t, {}))[1]

    def __len__(self) -> int:
        return len(self._shapes)

    def shape_of(self, t: Any) -> Any:
        """Return the shape of a tensor, or None."""
        return self._shapes.get(id(t), (t, None))[1]


class Leaf:
    """One input of the graph.

    Attributes:
        name: Name of its placeholder.
        source: How messages call it, as ``x['a'][0]``.
        value: The value that ``export`` got.
        dims: For a tensor, one entry for each dimension: a Dim, a hint or None.
    """

    def __init__(self, argument: str, keys: tuple[Any, ...], value: Any) -> None:
        parts = [str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", k)))) for k in keys]
        self.name = "".join([x if x.isalnum() or x == "_" else "_" for x in "_".join([argument, *parts])]).lower()
        self.steps = "".join([f"['{k.key}']" if isinstance(getattr(k, "key", None), str) else str(k) for k in keys])
        self.argument = argument
        self.source = argument + self.steps
        self.value = value
        self.dims: list[Any] = [None] * value.dim() if isinstance(value, Tensor) else []

    def local(self) -> str:
        """Return how PyTorch's messages call the input: ``L['x'][0]``."""
        return f"L['{self.argument}']{self.steps}"


def leaves_of(arguments: list[tuple[str, Any]], dynamic_shapes: Any) -> list[Leaf]:
    """Return the inputs of a graph, with the dynamic sizes that a program asks for.

    Args:
        arguments: Name and value of each argument, in order.
        dynamic_shapes: As for ``export``.

    Raises:
        ExportError: Their structures differ.
    """
    specs = _by_name([name for name, _ in arguments], dynamic_shapes)
    leaves = []
    for (name, value), spec in zip(arguments, specs, strict=True):
        found = [Leaf(name, keys, leaf) for keys, leaf in tree_flatten_with_path(value)[0]]
        if isinstance(dynamic_shapes, ShapesCollection):
            given = [dynamic_shapes.shape_of(leaf.value) for leaf in found]
        else:
            given = [] if spec is _ABSENT else _matched(f"['{name}']", value, spec)
        for leaf, shape in zip(found, given, strict=False):
            _set_dims(leaf, shape)
        leaves += found
    return leaves


_ABSENT: Final = object()


def _by_name(names: list[str], shapes: Any) -> list[Any]:
    """Return the dynamic shapes of each argument."""
    if not shapes or isinstance(shapes, ShapesCollection):
        return [_ABSENT] * len(names)
    if isinstance(shapes, Mapping):
        if set(shapes) - set(names) or set(names) - set(shapes):
            raise ExportError(
                "export", f"dynamic_shapes with the keys {list(shapes)}", "When `dynamic_shapes` is specified as a "
                f"dict, its top-level keys must be the arg names {names} of `inputs`, but here they are "
                f"{list(shapes)}", "name every argument, with None for those with fixed sizes")
        return [shapes[name] for name in names]
    if not isinstance(shapes, (tuple, list)) or len(shapes) != len(names):
        raise ExportError("export", f"dynamic_shapes of type {type(shapes).__name__}", "dynamic_shapes is a dict by "
                          f"argument, or a tuple or list with one entry for each of {names}", "pass one of these")
    return list(shapes)


def _matched(path: str, value: Any, spec: Any) -> list[Any]:
    """Return the part of a dynamic shape for each leaf of an argument."""
    if isinstance(value, Tensor) or not isinstance(value, (dict, list, tuple)):
        return [spec] * len(tree_leaves(value))
    children = value.items() if isinstance(value, dict) else enumerate(value)
    fits = (isinstance(spec, Mapping) and set(spec) == set(value)) if isinstance(value, dict) else (
        isinstance(spec, (tuple, list)) and len(spec) == len(value))
    if not fits:
        raise ExportError("export", f"dynamic_shapes{path} {spec!r}", "Detected mismatch between the structure of "
                          f"`inputs` and `dynamic_shapes`: `inputs{path}` is a {type(value)}, but "
                          f"`dynamic_shapes{path}` is not", "give dynamic_shapes the structure of the arguments")
    return [x for key, child in children for x in _matched(f"{path}[{key!r}]", child, spec[key])]


def _set_dims(leaf: Leaf, spec: Any) -> None:
    if spec is None:
        return
    if not isinstance(leaf.value, Tensor):
        if isinstance(spec, _DimHint) and spec.kind != "DYNAMIC":
            return
        raise ExportError("export", f"dynamic_shapes {spec!r} for {leaf.source}, a {type(leaf.value).__name__}",
                          "only sizes of tensors are dynamic; other arguments are constants of the graph",
                          "use None, or pass a tensor")
    given = spec if isinstance(spec, Mapping) else dict(enumerate(spec)) if isinstance(spec, (tuple, list)) else None
    ndim = leaf.value.dim()
    if given is None or any(type(k) is not int or not -ndim <= k < ndim for k in given) or (
            not isinstance(spec, Mapping) and len(spec) != ndim):
        raise ExportError("export", f"dynamic_shapes {spec!r} for {leaf.source} with {ndim} dimensions",
                          "a shape is a dict from dimensions, or a tuple with one entry for each",
                          "name dimensions that the tensor has")
    for k, dim in given.items():
        if isinstance(dim, int):
            if dim != leaf.value.size(k):
                raise ExportError("export", f"{dim} for dimension {k} of {leaf.source}", f"Static shape constraint of "
                                  f"{dim} does not match input size of {leaf.value.size(k)}, for "
                                  f"{leaf.local()}.size()[{k}]", "use None, or the size")
        elif dim is not None and not isinstance(dim, (Dim, _DimHint)):
            raise ExportError("export", f"{dim!r} for dimension {k} of {leaf.source}", "a size is a Dim, Dim.AUTO, "
                              "Dim.DYNAMIC, Dim.STATIC, None or the size itself", "use one of them")
        else:
            leaf.dims[k] = None if isinstance(dim, _DimHint) and dim.kind == "STATIC" else dim
