"""Random numbers: one counter-based generator (Philox 4x32-10), the same bits on every device.

Element i of a draw comes from word i % 4 of block ``offset + i // 4``; a draw of n elements advances the offset by
ceil(n / 4) blocks, so that neither device nor chunking changes a stream of numbers. A float64 takes two words.
"""

from __future__ import annotations

from tensocket_plugins.later import later

#: Modules of kernels load with the first one.
__getattr__ = later(__name__, "nest")

from tensocket_core import functions as _late

from .functions import rand, rand_like, randint, randint_like, randn, randn_like, randperm
from .generator import (
    Generator,
    generator_of,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .inplace import bernoulli_, cauchy_, exponential_, geometric_, log_normal_, normal_, random_, uniform_
from .positions import device_positions, from_positions, positions, restore_positions
from .samples import bernoulli, binomial, multinomial, normal, poisson

# ``vmap`` restores positions of generators, but belongs to a layer below them.
_late.publish({"positions": positions, "restore_positions": restore_positions})

__all__ = [
    "Generator",
    "bernoulli",
    "bernoulli_",
    "binomial",
    "cauchy_",
    "device_positions",
    "exponential_",
    "from_positions",
    "generator_of",
    "geometric_",
    "get_rng_state",
    "initial_seed",
    "log_normal_",
    "manual_seed",
    "multinomial",
    "normal",
    "normal_",
    "poisson",
    "positions",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random_",
    "randperm",
    "restore_positions",
    "seed",
    "set_rng_state",
    "uniform_",
]
