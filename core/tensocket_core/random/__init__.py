"""Random numbers: one counter-based generator (Philox 4x32-10), the same bits on every device.

Element i of a draw is made of word i % 4 of block ``offset + i // 4``; a draw of n elements advances the offset by
ceil(n / 4) blocks, so that neither device nor chunking changes a stream of numbers. float64 takes two words.
"""

from __future__ import annotations

from .functions import bernoulli, normal_, rand, rand_like, randint, randn, randn_like, randperm, uniform_
from .generator import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .state import fork_rng_states, rng_states

__all__ = [
    "Generator",
    "bernoulli",
    "default_generator",
    "fork_rng_states",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "normal_",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "rng_states",
    "seed",
    "set_rng_state",
    "uniform_",
]
