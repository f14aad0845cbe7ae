"""Random numbers: one counter-based generator (Philox 4x32-10), the same bits on every device.

Element i of a draw is made of word i % 4 of block ``offset + i // 4``; a draw of n elements advances the offset by
ceil(n / 4) blocks, so that neither device nor chunking changes a stream of numbers. float64 takes two words.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError, UndefinedDtype
from tensocket_plugins.ir.complex import COMPONENT
from tensocket_plugins.ir.nodes import Expr, call, cast, select
from tensocket_plugins.ir.philox import normal_float32, philox4x32, uniform_float32, uniform_float64
from tensocket_plugins.ir.schedule import Strategy

from . import tensors
from ._generated import functions
from .creation import check_range, empty_like, finish, from_values, options, shape_of
from .device import DeviceEntry, entries, open_entry
from .dispatch.factories import seen, watched
from .dispatch.fallback import note_host_operator
from .dispatch.keys import WRAPPER, dtype_bit
from .dispatch.modes import ACTIVE, STATE
from .execute.math import arithmetic_dtype
from .execute.nests import Operand, pointwise_nest
from .execute.pointwise import kind_letter
from .execute.primitive import primitive, run_formula
from .execute.programs import index_dtype, launch
from .formats import contiguous_format, preserve_format

_SEED_LIMIT: Final = 1 << 64
#: Numbers that 63 bits choose between.
_INT_RANGE: Final = 1 << 63
_DEFAULT_SEED: Final = 67280421310721
#: Seed of generators made for devices that are opened later.
_PROCESS_SEED: Final = [_DEFAULT_SEED]
_LOCK: Final = threading.Lock()


class Generator:
    """A stream of random numbers for one device.

    Args:
        device: Where its numbers are used.
    """

    def __init__(self, device: Any = None) -> None:
        self._entry = open_entry(device)
        self._seed = _PROCESS_SEED[0]
        self._offset = 0
        self._lock = threading.Lock()

    @property
    def device(self) -> Any:
        """Where its numbers are used."""
        return self._entry.device

    def __reduce__(self) -> tuple[Any, ...]:
        return _generator_at, (self._entry.device, self._seed, self._offset)

    def clone_state(self) -> Generator:
        """Another generator at the same position."""
        return _generator_at(self._entry.device, self._seed, self._offset)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of ``seed``.

        Raises:
            ArgumentError: The seed does not fit 64 bits.
        """
        if not -_SEED_LIMIT // 2 <= seed < _SEED_LIMIT:
            raise ArgumentError("manual_seed", f"seed {seed}", "a seed fits 64 bits", "pass a smaller number")
        with self._lock:
            self._seed, self._offset = seed % _SEED_LIMIT, 0
        return self

    def initial_seed(self) -> int:
        """The seed of this stream."""
        return self._seed

    def seed(self) -> int:
        """Start a stream that nobody can predict; returns its seed."""
        self.manual_seed(secrets.randbits(64))
        return self._seed

    def get_state(self) -> Any:
        """Seed and position, as a tensor of 16 bytes on the host."""
        words = np.array([self._seed, self._offset], np.uint64)
        return from_values(words.view(np.uint8), dtypes.uint8, open_entry(None))

    def set_state(self, state: Any) -> Generator:
        """Go to a position that ``get_state`` returned.

        Raises:
            ArgumentTypeError: It is no tensor of bytes.
            ShapeError: It has another size.
        """
        if getattr(state, "dtype", None) is not dtypes.uint8:
            raise ArgumentTypeError("set_state", f"a {type(state).__name__} of dtype {getattr(state, 'dtype', None)}",
                                    "a state is a tensor of bytes", "pass what get_state returned")
        if tuple(state.shape) != (16,):
            raise ShapeError("set_state", f"a tensor of shape {list(state.shape)}", "a state has 16 bytes",
                             "pass what get_state returned")
        words = np.ascontiguousarray(state._host()).view(np.uint64)
        with self._lock:
            self._seed, self._offset = int(words[0]), int(words[1])
        return self

    @property
    def position(self) -> tuple[int, int]:
        """Seed and offset of what is drawn next."""
        with self._lock:
            return self._seed, self._offset

    @position.setter
    def position(self, value: tuple[int, int]) -> None:
        with self._lock:
            self._seed, self._offset = value

    def take(self, blocks: int) -> tuple[int, int]:
        """Reserve counter blocks; returns the seed and the first block."""
        with self._lock:
            offset = self._offset
            self._offset += blocks
            return self._seed, offset


def _generator_at(device: Any, seed: int, offset: int) -> Generator:
    """A generator at a position of its stream."""
    generator = Generator(device)
    generator._seed, generator._offset = seed, offset
    return generator


_GENERATORS: Final[dict[int, Generator]] = {}


def default_generator(entry: DeviceEntry) -> Generator:
    """The generator that a device's random operators use."""
    generator = _GENERATORS.get(entry.key)
    if generator is None:
        with _LOCK:
            generator = _GENERATORS.setdefault(entry.key, Generator(entry.device))
    return generator


def manual_seed(seed: int) -> Generator:
    """Start the stream of ``seed`` on all devices; returns the default device's generator.

    Raises:
        ArgumentError: The seed does not fit 64 bits.
    """
    first = default_generator(open_entry(None)).manual_seed(seed)
    _PROCESS_SEED[0] = seed % _SEED_LIMIT
    for entry in entries():
        default_generator(entry).manual_seed(seed)
    return first


def initial_seed() -> int:
    """The seed of the default device's generator."""
    return default_generator(open_entry(None)).initial_seed()


def get_rng_state() -> Any:
    """State of the default device's generator."""
    return default_generator(open_entry(None)).get_state()


def set_rng_state(state: Any) -> None:
    """Set the state of the default device's generator."""
    default_generator(open_entry(None)).set_state(state)


# --------------------------------------------------------------------------------------------------- bits to numbers


def _words(i: Expr, state: tuple[Expr, ...], per_element: int) -> tuple[Expr, ...]:
    """The words of the block that element ``i`` is made of, ``4 // per_element`` elements to a block."""
    seed_low, seed_high, offset = state
    u64, u32 = dtypes.uint64, dtypes.uint32
    block = cast(i, u64) // (4 // per_element) + offset
    zero = call("xor", seed_low, seed_low)
    return philox4x32((cast(block, u32), cast(block >> 32, u32), zero, zero), (seed_low, seed_high))


def _pick(lane: Expr, values: tuple[Expr, ...]) -> Expr:
    result = values[-1]
    for k in range(len(values) - 2, -1, -1):
        result = select(call("eq", lane, k), values[k], result)
    return result


def _uniform32(i: Expr, *state: Expr) -> Expr:
    return uniform_float32(_pick(i & 3, _words(i, state, per_element=1)))


def _uniform64(i: Expr, *state: Expr) -> Expr:
    a, b, c, d = _words(i, state, per_element=2)
    low = call("eq", i & 1, 0)
    return uniform_float64(select(low, a, c), select(low, b, d))


def _normal32(i: Expr, *state: Expr) -> Expr:
    a, b, c, d = _words(i, state, per_element=1)
    first = call("eq", i & 2, 0)
    x, y = normal_float32(select(first, a, c), select(first, b, d))
    return select(call("eq", i & 1, 0), x, y)


def _normal64(i: Expr, *state: Expr) -> Expr:
    """Box and Muller's method in float64; element 2k and 2k + 1 share two blocks' worth of words."""
    pair = i // 2 * 2
    first = _uniform64(pair, *state)
    second = _uniform64(pair + 1, *state)
    radius = call("sqrt", call("log", 1.0 - first) * -2.0)
    angle = second * (2 * math.pi)
    return radius * select(call("eq", i & 1, 0), call("cos", angle), call("sin", angle))


def _bits64(i: Expr, *state: Expr) -> Expr:
    """63 random bits as int64."""
    a, b, c, d = _words(i, state, per_element=2)
    low = call("eq", i & 1, 0)
    u64 = dtypes.uint64
    word = (cast(select(low, a, c), u64) << 32) | cast(select(low, b, d), u64)
    return cast(word >> 1, dtypes.int64)


def _draw(name: str, formula: Callable[..., Expr], entry: DeviceEntry, shape: tuple[int, ...], dtype: DType, words: int,
          generator: Generator | None) -> Any:
    """Fill a new array with one formula of the position and the generator's state."""
    out = entry.runtime.empty(shape, dtype, entry.stream)
    count = math.prod(shape)
    if count == 0:
        return out
    seed, offset = (generator or default_generator(entry)).take(-(-count * words // 4))
    if entry.runtime.target is None:
        _draw_primitives(name, entry, out, dtype, words, seed, offset)
        return out
    index = index_dtype(entry, (count,))
    state = (Operand("number", dtypes.uint32), Operand("number", dtypes.uint32), Operand("number", dtypes.uint64))
    launch(
        entry,
        (name, dtype, index),
        lambda: pointwise_nest(name, formula, state, [Operand("flat", dtype)], 1, index, position=True),
        Strategy.SERIAL,
        [out],
        [count, seed & 0xFFFFFFFF, seed >> 32, offset],
    )
    return out


def _through_transforms(name: str, draw: Callable[[tuple[int, ...]], Any]) -> Any:
    """``draw(())``; while transforms run that want one draw per example, ``draw`` of as many, as theirs."""
    transforms = STATE.transforms
    copies = [transform.copies(name) for transform in transforms]
    tensor = draw(tuple([n for n in copies if n is not None]))
    for transform, count in zip(transforms, copies, strict=True):
        tensor = transform.created(tensor, count is not None)
    return tensor


def _drawn(name: str, formula: Callable[..., Expr], entry: DeviceEntry, shape: tuple[int, ...], dtype: DType,
           words: int, generator: Generator | None) -> Any:
    """A tensor of drawn numbers."""
    return _through_transforms(name, lambda lead: tensors.wrap(
        _draw(name, formula, entry, (*lead, *shape), dtype, words, generator), entry.key | dtype_bit(dtype)))


def _draw_primitives(name: str, entry: DeviceEntry, out: Any, dtype: DType, words: int, seed: int, offset: int) -> None:
    """The same numbers from the primitive ``philox_bits``; only float64 normals use the backend's own functions."""
    count = out.size
    blocks = -(-count * words // 4)
    bits = entry.runtime.empty((4 * blocks,), dtypes.uint32, entry.stream)
    primitive(name, entry, "philox_bits", dtypes.uint32)([bits], [], (seed, offset), entry.stream)
    lanes = [bits[k::words] for k in range(words)]
    flat = out.reshape((count,))
    if name != "randn":
        formula = _plain_bits64 if name == "bits" else _UNIFORM_FORMULAS[words]
        run_formula(
            name, entry, formula, [(lane[:count], dtypes.uint32) for lane in lanes], dtype, (count,), flat, dtype, None
        )
        return
    step = 2 * words
    operands = [(bits[k::step], dtypes.uint32) for k in range(step)]
    for formula, part in zip(_NORMAL_FORMULAS[words], (flat[0::2], flat[1::2]), strict=True):
        if part.size:
            used = [(x[: part.size], kind) for x, kind in operands]
            fresh = entry.runtime.empty(part.shape, dtype, entry.stream)
            run_formula(name, entry, formula, used, dtype, part.shape, fresh, dtype, None)
            primitive(name, entry, "copy", dtype)([part], [fresh], (), entry.stream)


def _upper(word: Expr, bits: int, dtype: DType) -> Expr:
    """The upper bits of a word as a float, without shifts: primitives have none."""
    return cast(cast(word, dtypes.int64) // (1 << (32 - bits)), dtype)


def _plain_uniform32(word: Expr) -> Expr:
    return _upper(word, 24, dtypes.float32) * 2.0**-24


def _plain_uniform64(high: Expr, low: Expr) -> Expr:
    return (_upper(high, 27, dtypes.float64) * 2.0**26 + _upper(low, 26, dtypes.float64)) * 2.0**-53


def _plain_normal(uniform: Callable[..., Expr], words: int, trigonometric: str) -> Callable[..., Expr]:
    def formula(*bits: Expr) -> Expr:
        radius = call("sqrt", call("log", 1.0 - uniform(*bits[:words])) * -2.0)
        return radius * call(trigonometric, uniform(*bits[words:]) * (2 * math.pi))

    return formula


_UNIFORM_FORMULAS: Final[dict[int, Callable[..., Expr]]] = {1: _plain_uniform32, 2: _plain_uniform64}
_NORMAL_FORMULAS: Final = {
    1: (lambda radius, angle: normal_float32(radius, angle)[0], lambda radius, angle: normal_float32(radius, angle)[1]),
    2: (_plain_normal(_plain_uniform64, 2, "cos"), _plain_normal(_plain_uniform64, 2, "sin")),
}


def _plain_bits64(high: Expr, low: Expr) -> Expr:
    return cast(high, dtypes.int64) * (1 << 31) + cast(low, dtypes.int64) // 2


def _floats(
    operator: str,
    formulas: tuple[Callable[..., Expr], Callable[..., Expr]],
    shape: tuple[int, ...],
    dtype: DType,
    entry: DeviceEntry,
    generator: Generator | None,
) -> Any:
    """A tensor of floats: drawn as float32 or float64, then rounded. Complex numbers are drawn as pairs; the parts of
    normal ones have half of the variance each.
    """
    if dtype.is_complex:
        pairs = _floats(operator, formulas, (*shape, 2), COMPONENT[dtype], entry, generator)
        return functions.view_as_complex(pairs * math.sqrt(0.5) if formulas is _NORMAL else pairs)
    if kind_letter(dtype) != "f":
        raise UndefinedDtype(
            operator,
            f"dtype {dtype.name}",
            "random floats have a floating-point dtype",
            "use randint, or pass a float dtype",
        )
    wide = dtype is dtypes.float64
    work = arithmetic_dtype(dtype)
    result = _drawn(operator, formulas[wide], entry, shape, work, 1 + wide, generator)
    return result if dtype is work else result.to(dtype)


def _random(
    operator: str,
    formulas: tuple[Callable[..., Expr], Callable[..., Expr]],
    size: tuple[Any, ...],
    dtype: Any,
    device: Any,
    requires_grad: bool,
    generator: Generator | None,
) -> Any:
    chosen, entry = options(operator, dtype, generator.device if device is None and generator is not None else device)
    result = _floats(operator, formulas, shape_of(operator, size), chosen, entry, generator)
    return result.requires_grad_() if requires_grad else result


_UNIFORM: Final = (_uniform32, _uniform64)
_NORMAL: Final = (_normal32, _normal64)


def rand(*size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None,
         requires_grad: bool = False, **rest: Any) -> Any:
    """Uniform numbers in [0, 1)."""
    if rest or (ACTIVE and watched()):
        return seen(rand, *size, rest=rest, generator=generator, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    return _random("rand", _UNIFORM, size, dtype, device, requires_grad, generator)


def randn(*size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None,
          requires_grad: bool = False, **rest: Any) -> Any:
    """Normal numbers with mean 0 and variance 1."""
    if rest or (ACTIVE and watched()):
        return seen(randn, *size, rest=rest, generator=generator, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    return _random("randn", _NORMAL, size, dtype, device, requires_grad, generator)


def drawn_like(draw: Callable[..., Any], input: Any, dtype: Any, device: Any, requires_grad: bool,
               memory_format: Any) -> Any:
    """What ``draw`` draws for another tensor's shape, dtype and device, in memory as that or in a memory format."""
    kept = memory_format is None or memory_format is preserve_format
    chosen = {"dtype": input.dtype if dtype is None else dtype, "device": input.device if device is None else device}
    drawn = draw(tuple(input.shape), **chosen)
    if not (memory_format is contiguous_format or (kept and input.is_contiguous())):
        drawn = empty_like(input, memory_format=memory_format, **chosen).copy_(drawn)
    return drawn.requires_grad_() if requires_grad else drawn


def rand_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              memory_format: Any = None, **rest: Any) -> Any:
    """Uniform numbers in [0, 1) with another tensor's shape, strides, dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and watched(input)):
        return seen(rand_like, input, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    return drawn_like(rand, input, dtype, device, requires_grad, memory_format)


def randn_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
               memory_format: Any = None, **rest: Any) -> Any:
    """Normal numbers with another tensor's shape, strides, dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and watched(input)):
        return seen(randn_like, input, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    return drawn_like(randn, input, dtype, device, requires_grad, memory_format)


def randint(low: Any = None, high: Any = None, size: Any = None, *, generator: Generator | None = None,
            dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """Integers in [low, high), int64 unless given: 63 random bits modulo the range.

    Raises:
        ArgumentError: The range is empty, has more than 2 ** 63 numbers, or the dtype does not hold its bounds.
        ArgumentTypeError: No size is given.
    """
    if rest or (ACTIVE and watched()):
        return seen(randint, low, high, size, rest=rest, generator=generator, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    low, high, size = _bounds(low, high, size)
    if high <= low:
        raise ArgumentError("randint", f"low={low}, high={high}", "low is less than high", "exchange them")
    chosen, entry = options(
        "randint", dtype, generator.device if device is None and generator is not None else device, dtypes.int64
    )
    check_range("randint", low, chosen)
    check_range("randint", high - 1, chosen)
    if high - low > _INT_RANGE:
        raise ArgumentError(
            "randint", f"low={low}, high={high}", "a range has at most 2 ** 63 numbers", "pass a smaller range"
        )
    drawn = _drawn("bits", _bits64, entry, shape_of("randint", (size,)), dtypes.int64, 2, generator)
    # All 63 bits are in a range of that size, which int64 does not hold.
    result = ((drawn if high - low == _INT_RANGE else drawn % (high - low)) + low).to(chosen)
    return result.requires_grad_() if requires_grad else result


def _bounds(low: Any, high: Any, size: Any) -> tuple[int, int, Any]:
    """The arguments of ``randint(high, size)`` and ``randint(low, high, size)``, also by name."""
    if size is None:
        low, high, size = None, low, high
    elif high is None:
        low, high = None, low
    low = 0 if low is None else low
    if not isinstance(size, (tuple, list)):
        raise ArgumentTypeError("randint", f"size={size!r}", "size is a tuple of ints", "pass for example (3,)")
    if not hasattr(low, "__index__") or not hasattr(high, "__index__"):
        raise ArgumentTypeError("randint", f"low={low!r}, high={high!r}", "bounds are integers", "pass integers")
    return low.__index__(), high.__index__(), size


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, **rest: Any) -> Any:
    """The integers from 0 to n - 1 in random order: the order of n random keys of 63 bits, sorted on the host."""
    if rest or (ACTIVE and watched()):
        return seen(randperm, n, rest=rest, generator=generator, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    if n < 0:
        raise ArgumentError("randperm", f"n={n}", "n is not negative", "pass a non-negative number")
    chosen, entry = options(
        "randperm", dtype, generator.device if device is None and generator is not None else device, dtypes.int64
    )
    if not entry.holds_data:
        return finish(entry.runtime.empty((n,), chosen, entry.stream), chosen, entry, requires_grad)

    def draw(lead: tuple[int, ...]) -> Any:
        keys = tensors.wrap(_draw("bits", _bits64, entry, (*lead, n), dtypes.int64, 2, generator),
                            entry.key | dtype_bit(dtypes.int64))
        if not entry.runtime.profile.host_resident:
            note_host_operator("randperm", keys)
        return from_values(np.argsort(keys._host(), axis=-1, kind="stable"), chosen, entry)

    result = _through_transforms("randperm", draw)
    return result.requires_grad_() if requires_grad else result


def uniform_(input: Any, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Uniform numbers in [a, b), in place."""
    if a > b:
        raise ArgumentError("uniform_", f"a={a}, b={b}", "a is not greater than b", "exchange them")
    drawn = _floats("rand", _UNIFORM, tuple(input.shape), input.dtype, input._entry, generator)
    return input.copy_(drawn * (b - a) + a)


def normal_(input: Any, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Normal numbers, in place."""
    if std < 0:
        raise ArgumentError(
            "normal_", f"std={std}", "a standard deviation is not negative", "pass a non-negative number"
        )
    return input.copy_(_floats("randn", _NORMAL, tuple(input.shape), input.dtype, input._entry, generator) * std + mean)


def bernoulli(input: Any, *, generator: Generator | None = None) -> Any:
    """1 with the probabilities in ``input``, else 0."""
    return (_floats("rand", _UNIFORM, tuple(input.shape), input.dtype, input._entry, generator) < input.detach()).to(
        input.dtype
    )
