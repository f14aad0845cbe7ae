"""Generators: streams of random numbers, given by seed and position."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState, device_states, open_device
from tensocket_core.launch.fill import from_values
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError
from tensocket_plugins.contract.forks import Rank, by_thread, held_over_forks
from tensocket_plugins.contract.launch_recorder import RECORDERS, forbid_replay

_SEED_LIMIT: Final = 1 << 64
_DEFAULT_SEED: Final = 67280421310721
#: Seed for the generators of devices that are opened later.
_PROCESS_SEED: Final = [_DEFAULT_SEED]
#: All generators, by identity.
_EVERY: Final[dict[int, weakref.ref[Generator]]] = {}
_LOCK: Final = held_over_forks(threading.Lock(), Rank.LEAVES)


class Generator:
    """A stream of random numbers for one device.

    Args:
        device: The device that uses its numbers.
    """

    def __init__(self, device: Any = None) -> None:
        self._device_state = open_device(device)
        self._seed = _PROCESS_SEED[0]
        self._offset = 0
        self._lock = held_over_forks(threading.Lock(), Rank.LEAVES)
        key = id(self)
        _EVERY[key] = weakref.ref(self, lambda _: _EVERY.pop(key, None))

    @property
    def device(self) -> Any:
        """The device that uses its numbers."""
        return self._device_state.device

    def __reduce__(self) -> tuple[Any, ...]:
        return _generator_at, (self._device_state.device, self._seed, self._offset)

    def clone_state(self) -> Generator:
        """Return another generator at the same position."""
        return _generator_at(self._device_state.device, self._seed, self._offset)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of ``seed``.

        Raises:
            ArgumentError: The seed does not fit 64 bits.
        """
        seed = int(seed)
        if not -_SEED_LIMIT // 2 <= seed < _SEED_LIMIT:
            raise ArgumentError("manual_seed", f"seed {seed}", "a seed fits 64 bits", "pass a smaller number")
        with self._lock:
            self._seed, self._offset = seed % _SEED_LIMIT, 0
        return self

    def initial_seed(self) -> int:
        """Return the seed of this stream."""
        return self._seed

    def seed(self) -> int:
        """Start an unpredictable stream and return its seed."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def get_state(self) -> Any:
        """Return seed and position, as a tensor of 16 bytes on the host."""
        words = np.array([self._seed, self._offset], np.uint64)
        return from_values(words.view(np.uint8), dtypes.uint8, open_device(None))

    def set_state(self, state: Any) -> Generator:
        """Go to a position that ``get_state`` returned.

        Raises:
            ArgumentTypeError: The state is not a tensor of bytes.
            ShapeError: The state has another size.
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
        """Seed and offset of the next draw."""
        with self._lock:
            return self._seed, self._offset

    @position.setter
    def position(self, value: tuple[int, int]) -> None:
        with self._lock:
            self._seed, self._offset = value

    def take(self, blocks: int) -> tuple[int, int]:
        """Reserve counter blocks; return the seed and the first block."""
        if RECORDERS:
            forbid_replay()  # before the position changes: each call draws other numbers
        with self._lock:
            offset = self._offset
            self._offset += blocks
            return self._seed, offset


def _generator_at(device: Any, seed: int, offset: int) -> Generator:
    """Return a generator at a position of its stream."""
    generator = Generator(device)
    generator._seed, generator._offset = seed, offset
    return generator


_GENERATORS: Final[dict[int, Generator]] = {}
#: By thread that draws from generators of its own, these generators.
ASIDE: Final[dict[int, list[Generator]]] = by_thread({})


@contextmanager
def draws_aside() -> Iterator[list[Generator]]:
    """Run a block in which each draw of this thread has a new generator, and moves no other; the value lists them."""
    me = get_ident()
    outer = ASIDE.get(me)
    drawn = ASIDE[me] = []
    try:
        yield drawn
    finally:
        if outer is None:
            ASIDE.pop(me, None)
        else:
            ASIDE[me] = outer


def every_generator() -> list[Generator]:
    """Return all generators: those of devices, and those that the program made."""
    found = [reference() for reference in _EVERY.copy().values()]  # a copy, as threads make others meanwhile
    return [generator for generator in found if generator is not None]


def generator_of(device_state: DeviceState) -> Generator:
    """Return the generator that a device's random operators use."""
    if ASIDE and (drawn := ASIDE.get(get_ident())) is not None:
        drawn.append(Generator(device_state.device))
        return drawn[-1]
    return generator_of_device(device_state)


def generator_of_device(device_state: DeviceState) -> Generator:
    """Return the generator of a device, which is one object as long as the process."""
    generator = _GENERATORS.get(device_state.key)
    if generator is None:
        with _LOCK:
            generator = _GENERATORS.setdefault(device_state.key, Generator(device_state.device))
    return generator


def manual_seed(seed: int) -> Generator:
    """Start the stream of ``seed`` on all devices; return the default device's generator.

    Raises:
        ArgumentError: The seed does not fit 64 bits.
    """
    seed = int(seed)
    first = generator_of(open_device(None)).manual_seed(seed)
    _PROCESS_SEED[0] = seed % _SEED_LIMIT
    for device_state in device_states():
        generator_of(device_state).manual_seed(seed)
    return first


def seed() -> int:
    """Start an unpredictable stream on all devices and return its seed."""
    chosen = int.from_bytes(os.urandom(8), "little")
    manual_seed(chosen)
    return chosen


def initial_seed() -> int:
    """Return the seed of the default device's generator."""
    return generator_of(open_device(None)).initial_seed()


def get_rng_state() -> Any:
    """Return the state of the default device's generator."""
    return generator_of(open_device(None)).get_state()


def set_rng_state(state: Any) -> None:
    """Set the state of the default device's generator."""
    generator_of(open_device(None)).set_state(state)
