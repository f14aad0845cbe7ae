"""Functions without a schema and their arguments: those that make tensors, convert them, or tell of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as torch
from fuzz.scenes import Scene
from fuzz.values import HOST, Operand, contents


def _geometry(made: Any) -> tuple[Any, ...]:
    """Return the attributes of a tensor whose elements are arbitrary."""
    return made.shape, made.stride(), str(made.dtype), made.requires_grad


def _unwritten(name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: _geometry(function_of(name, False)(*args, **kwargs))


def _one(s: Scene) -> Operand:
    """A tensor of one element, or of several, now and then."""
    s.shape = s.shape if s.rng.random() < 0.1 else [(), (1,), (1, 1)][int(s.rng.integers(3))]
    return s.operand("input")


def _place(s: Scene) -> Any:
    """An index."""
    rng = s.rng
    part = slice(*[None if rng.random() < 0.4 else int(n) for n in rng.integers(-2, 4, 2)], int(rng.integers(1, 3)))
    return [s.whole("k"), part, ..., (..., part), (part, s.whole("k")), (part, None), s.operand("mask"),
            s.operand("index")][int(rng.integers(8))]


def _assigned(s: Scene) -> tuple[Any, ...]:
    value = s.number() if s.rng.random() < 0.5 else s.operand("value")
    return s.operand("input"), _place(s), value


def _array(s: Scene) -> np.ndarray[Any, Any]:
    """An array of NumPy, some with strides."""
    made = np.array(contents(s.rng, s.shape, s.dtype, s.kind), HOST[s.dtype])
    return made.T if s.rng.random() < 0.3 else made


def _data(s: Scene) -> Any:
    """Draw data that a tensor can be made of."""
    return [s.number(), [s.number(), s.number()], _array(s), s.operand("data")][int(s.rng.integers(4))]


def _strided(s: Scene) -> tuple[Any, ...]:
    """A tensor with sizes and strides, most of them within its memory."""
    size = tuple(int(n) for n in s.rng.integers(1, 4, int(s.rng.integers(0, 3))))
    return s.operand("input"), size, tuple(int(n) for n in s.rng.integers(0, 3, len(size))), int(s.rng.integers(0, 3))


def _scattered(s: Scene) -> tuple[Any, ...]:
    x, size, stride, offset = _strided(s)
    return x, s.laid(contents(s.rng, size, s.dtype, s.kind), s.dtype), size, stride, offset


def _order(s: Scene) -> tuple[int, ...]:
    return tuple(int(k) for k in s.rng.permutation(len(s.shape)))


#: The arguments of each function.
FACTORIES: dict[str, Callable[[Scene], tuple[Any, ...]]] = {
    **dict.fromkeys(("zeros_like", "ones_like", "rand_like", "randn_like", "empty_like"),
                    lambda s: (s.operand("input"),)),
    **dict.fromkeys(("zeros", "ones", "rand", "randn", "empty"), lambda s: (s.shape,)),
    **dict.fromkeys(("linspace", "logspace"), lambda s: (s.number(), s.number(), s.whole("steps") * 3)),
    **dict.fromkeys(("Tensor.new_zeros", "Tensor.new_ones", "Tensor.new_empty", "Tensor.resize_"),
                    lambda s: (s.operand("input"), s.shape[::-1])),
    **dict.fromkeys(("Tensor.numel", "Tensor.element_size", "Tensor.is_complex", "Tensor.is_floating_point",
                     "Tensor.tolist", "Tensor.__len__", "Tensor.size", "Tensor.__array__", "Tensor.__repr__",
                     "Tensor.get_device", "Tensor.is_contiguous", "Tensor.numpy", "Tensor.storage_offset",
                     "Tensor.stride", "Tensor.requires_grad_", "Tensor.detach_", "Tensor.cpu", "Tensor.__deepcopy__"),
                    lambda s: (s.operand("input"),)),
    **dict.fromkeys(("Tensor.__bool__", "Tensor.__float__", "Tensor.__int__", "Tensor.__index__", "Tensor.item"),
                    lambda s: (_one(s),)),
    **dict.fromkeys(("as_strided", "as_strided_", "as_strided_copy"), _strided),
    "as_strided_scatter": _scattered, "resize_as_": lambda s: (s.operand("input"), s.operand("other")),
    "empty_strided": lambda s: (s.shape, _order(s)), "empty_permuted": lambda s: (s.shape, _order(s)),
    "as_tensor": lambda s: (_data(s),), "asarray": lambda s: (_data(s),), "from_numpy": lambda s: (_array(s),),
    "Tensor.new_tensor": lambda s: (s.operand("input"), _data(s)),
    "Tensor.__format__": lambda s: (_one(s), "" if s.rng.random() < 0.5 else ".3f"),
    "Tensor.__setitem__": _assigned, "Tensor.apply_": lambda s: (s.operand("input"), abs),
    "Tensor.map_": lambda s: (s.operand("input"), s.operand("other"), divmod if s.rng.random() < 0.1 else max),
    "Tensor.map2_": lambda s: (s.operand("input"), s.operand("x"), s.operand("y"), max),
    "full_like": lambda s: (s.operand("input"), s.number()), "full": lambda s: (s.shape, s.number()),
    "Tensor.new_full": lambda s: (s.operand("input"), s.shape[::-1], s.number()),
    "arange": lambda s: (s.number(), s.number(), s.number()), "eye": lambda s: (s.whole("n"), s.whole("m")),
    "randint": lambda s: (s.whole("low"), 9, s.shape), "randperm": lambda s: (s.whole("n") * 5,),
    "scalar_tensor": lambda s: (s.number(),), "Tensor.__contains__": lambda s: (s.operand("input"), s.number()),
    "Tensor.__getitem__": lambda s: (s.operand("input"), _place(s)),
    "Tensor.normal_": lambda s: (s.operand("input"), 0.5, 2.0),
    "Tensor.uniform_": lambda s: (s.operand("input"), -1.0, 3.0),
}
#: Those that write to their first argument.
CHANGING = frozenset({"Tensor.normal_", "Tensor.uniform_", "Tensor.__setitem__", "Tensor.apply_", "Tensor.map_",
                      "Tensor.map2_", "as_strided_"})
_WITH_DTYPE = frozenset({"as_tensor", "asarray", "linspace", "logspace", "full", "arange", "eye", "randint",
                         "scalar_tensor", "zeros", "ones", "rand", "randn", "empty", "empty_strided", "empty_permuted"})
#: Those whose elements nobody has written, and copies, which need a dictionary of their own.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Tensor.__deepcopy__": copy.deepcopy,
    **{name: _unwritten(name) for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "resize_as_",
                                           "Tensor.new_empty", "Tensor.resize_")},
}


def takes_dtype(name: str) -> bool:
    """Whether a function has an argument ``dtype``."""
    return name in _WITH_DTYPE or name.endswith("_like") or name.startswith("Tensor.new_")


def function_of(name: str, known: bool = True) -> Callable[..., Any]:
    """Return the function of a name."""
    if known and name in _FUNCTIONS:
        return _FUNCTIONS[name]
    function: Any = torch
    for part in name.split("."):
        function = getattr(function, part)
    return function  # type: ignore[no-any-return]
