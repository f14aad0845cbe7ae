"""Random numbers in C libraries: the numbers of the same stream on every device, computed by operators.

A library has no generator, so seed and offset of the stream are a part of its state, and what follows from them is
arithmetic of 64-bit integers that hold words of 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket.errors import CompileError
from tensocket_core.dispatch.protocol import TorchDispatchMode
from tensocket_plugins.contract.dtypes import DType, bfloat16, float16, float32, float64, int64

_MULTIPLIERS: Final = 0xD2511F53, 0xCD9E8D57
_WEYL: Final = 0x9E3779B9, 0xBB67AE85
_ROUNDS: Final = 10
_WORD: Final = 0xFFFFFFFF
#: By narrow float dtype, the bound up to which it represents every whole number: uniform numbers are fractions of it.
_EXACT: Final = {float16: 1 << 11, bfloat16: 1 << 8}
_LARGEST_RANGE: Final = (1 << 63) - 1


class RandomNumbers(TorchDispatchMode):
    """A mode in which random operators compute with the stream that a tensor tells.

    Args:
        state: A tensor of seed and offset.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self._state = state
        self._offset: Any = None

    @property
    def has_drawn(self) -> bool:
        """Whether anything was drawn."""
        return self._offset is not None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Draw by arithmetic, or call another operator.

        Raises:
            CompileError: The draw is from a generator of the program, or of a dtype that the arithmetic does not have.
        """
        name, kwargs = getattr(func, "name", ""), kwargs or {}
        plain = name.removesuffix("_like")
        if plain not in _NAMES:
            return func(*args, **kwargs)
        if kwargs.get("generator") is not None:
            raise CompileError("compile_c", f"{name} with a generator", "random numbers in C are those of one stream, "
                               "which is a part of the state", "leave the generator out")
        like = args[0] if plain != name else None
        args = args if like is None else args[1:]
        dtype = kwargs.get("dtype") or (None if like is None else like.dtype)
        if plain == "randint":
            *bounds, size = [x for x in args if x is not None] if like is None else (*args, tuple(like.shape))
            low, high = (0, *bounds) if len(bounds) == 1 else bounds
            drawn = self._integers(low, high, tuple(size), dtype or int64)
        else:
            size = args[0] if len(args) == 1 and isinstance(args[0], Sequence) else args
            drawn = self._floats(plain, tuple(size if like is None else like.shape), dtype or _default_dtype())
        if like is not None and not like.is_contiguous():
            return _functions().empty_like(like, dtype=drawn.dtype).copy_(drawn)
        return drawn

    def advance(self) -> None:
        """Move the state behind the numbers that were drawn."""
        if self.has_drawn:
            self._state[1:].copy_(self._offset)

    # --------------------------------------------------------------------------------------------------- numbers

    def _floats(self, name: str, shape: tuple[int, ...], dtype: DType) -> Any:
        work = float32 if dtype in _EXACT else dtype
        if work not in (float32, float64):
            raise CompileError("compile_c", f"{name} of dtype {dtype.name}", "random numbers in C are real floats or "
                               "integers", "draw these, and convert them")
        formula, words = _DRAWS[name, work]
        drawn = self._draw(formula, words, shape, work)
        if dtype is work:
            return drawn
        if name == "rand":  # rounded numbers would reach 1
            drawn = (drawn * _EXACT[dtype]).floor() * (1 / _EXACT[dtype])
        return drawn.to(dtype)

    def _integers(self, low: int, high: int, shape: tuple[int, ...], dtype: DType) -> Any:
        if not 0 < high - low <= _LARGEST_RANGE:
            raise CompileError("compile_c", f"randint from {low} to {high}", "a range has from 1 to 2**63 - 1 numbers",
                               "choose another range")
        return (self._draw(_bits64, 2, shape, int64) % (high - low) + low).to(dtype)

    def _draw(self, formula: Callable[..., Any], words: int, shape: tuple[int, ...], dtype: DType) -> Any:
        """Return numbers of a dtype, of which each takes ``words`` words of the stream."""
        count = math.prod(shape)
        if not count:
            return _functions().zeros(shape, dtype=dtype)
        offset = self._state[1:] if self._offset is None else self._offset
        blocks = _functions().arange(-(-count * words // 4)) + offset
        self._offset = blocks[-1:] + 1  # not a sum with a number, which kernels would contain: it may change
        return formula(*_philox(blocks, self._state[0])).reshape(-1)[:count].reshape(shape)


def _functions() -> Any:
    import tensocket

    return tensocket


def _default_dtype() -> Any:
    return _functions().get_default_dtype()


def _philox(block: Any, seed: Any) -> tuple[Any, Any, Any, Any]:
    """Return the four words of blocks: Philox 4x32-10, as ``tensocket_plugins.ir.philox`` has it for kernels."""
    a, b, c, d = block & _WORD, block >> 32 & _WORD, 0, 0
    keys = [seed & _WORD, seed >> 32 & _WORD]
    for number in range(_ROUNDS):
        key, other = [key + weyl * number & _WORD for key, weyl in zip(keys, _WEYL, strict=True)]
        (high, low), (high2, low2) = _product(a, _MULTIPLIERS[0]), _product(c, _MULTIPLIERS[1])
        a, b, c, d = high2 ^ b ^ key, low2, high ^ d ^ other, low
    return a, b, c, d


def _product(x: Any, factor: int) -> tuple[Any, Any]:
    """Return the upper and the lower word of a product, whose parts do not exceed 63 bits."""
    lower = (x & 0xFFFF) * factor
    upper = (x >> 16) * factor + (lower >> 16)
    return upper >> 16, (upper & 0xFFFF) << 16 | lower & 0xFFFF


def _stack(*parts: Any) -> Any:
    return _functions().stack(parts, -1)


def _uniform32(*words: Any) -> Any:
    return _stack(*[(word >> 8).float() * 2.0**-24 for word in words])


def _wide(high: Any, low: Any) -> Any:
    return ((high >> 5).double() * 2.0**26 + (low >> 6).double()) * 2.0**-53


def _uniform64(a: Any, b: Any, c: Any, d: Any) -> Any:
    return _stack(_wide(a, b), _wide(c, d))


def _bits64(a: Any, b: Any, c: Any, d: Any) -> Any:
    return _stack(a << 31 | b >> 1, c << 31 | d >> 1)


def _normal32(a: Any, b: Any, c: Any, d: Any) -> Any:
    return _stack(*_pair32(a, b), *_pair32(c, d))


def _pair32(radius: Any, angle: Any) -> tuple[Any, Any]:
    """Return two normal numbers of two words, by Box and Muller's method."""
    u = ((radius >> 1).float() + 0.5) * 2.0**-31
    quarter = (angle + (1 << 29) & _WORD) >> 30
    rest = angle << 2 & _WORD
    rest = (rest - (rest >> 31 << 32)).float() * (math.pi / 2 * 2.0**-32)  # as a signed word
    return _turned((u.log() * -2.0).sqrt(), quarter, rest)


def _normal64(a: Any, b: Any, c: Any, d: Any) -> Any:
    quarters = _wide(c, d) * 4.0
    quarter = (quarters + 0.5).long()
    return _stack(*_turned(((1.0 - _wide(a, b)).log() * -2.0).sqrt(), quarter,
                           (quarters - quarter.double()) * (math.pi / 2)))


def _turned(radius: Any, quarter: Any, rest: Any) -> tuple[Any, Any]:
    """Return the coordinates of a point at a distance, whose angle is quarter turns and a rest."""
    sine, cosine, even = rest.sin(), rest.cos(), quarter & 1 == 0
    x, y = radius * cosine.where(even, sine), radius * sine.where(even, cosine)
    return (-x).where((quarter + 1) & 2 != 0, x), (-y).where(quarter & 2 != 0, y)


#: By operator and dtype, the formula of four words, and how many words a number takes.
_DRAWS: Final[dict[Any, Any]] = {
    ("rand", float32): (_uniform32, 1), ("rand", float64): (_uniform64, 2),
    ("randn", float32): (_normal32, 1), ("randn", float64): (_normal64, 2)}
_NAMES: Final = frozenset({"rand", "randn", "randint"})

__all__ = ["RandomNumbers"]
