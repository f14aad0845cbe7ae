"""Random numbers are Philox 4x32-10: checked bit by bit against a plain implementation, and by their moments."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.device import open_device
from tensocket_operators import random
from tensocket_operators.random.generator import draws_aside, generator_of
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError

MASK = 0xFFFFFFFF
SEEDS = [0, 1, 2026, 0x299F31D0A4093822, (1 << 64) - 1]


def philox(counter: tuple[int, ...], seed: int) -> list[int]:
    """One block, as published: ten rounds of two multiplications, the key raised by two constants between rounds."""
    c0, c1, c2, c3 = counter
    k0, k1 = seed & MASK, seed >> 32
    for _ in range(10):
        p, q = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (q >> 32) ^ c1 ^ k0, q & MASK, (p >> 32) ^ c3 ^ k1, p & MASK
        k0, k1 = k0 + 0x9E3779B9 & MASK, k1 + 0xBB67AE85 & MASK
    return [c0, c1, c2, c3]


def words(seed: int, count: int, first: int = 0) -> np.ndarray:
    """The first words of a stream, from block ``first`` on."""
    blocks = range(first, first + (count + 3) // 4)
    return np.array([w for b in blocks for w in philox((b & MASK, b >> 32, 0, 0), seed)], np.uint64)[:count]


def uniform32(bits: np.ndarray) -> np.ndarray:
    return (bits >> np.uint64(8)).astype(np.float64) * 2.0**-24


def uniform64(bits: np.ndarray) -> np.ndarray:
    high, low = bits[0::2] >> np.uint64(5), bits[1::2] >> np.uint64(6)
    return (high.astype(np.float64) * 2.0**26 + low.astype(np.float64)) * 2.0**-53


def normals(radius: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Box and Muller's method: uniform numbers in (0, 1] and fractions of a turn to pairs."""
    length, angle = np.sqrt(-2 * np.log(radius)), 2 * np.pi * angle
    return np.stack([length * np.cos(angle), length * np.sin(angle)], 1).ravel()


def normals32(bits: np.ndarray) -> np.ndarray:
    """One word is a radius in the middle of one of 2 ** 31 steps, one an angle."""
    return normals(((bits[0::2] >> np.uint64(1)) + 0.5) * 2.0**-31, bits[1::2] * 2.0**-32)


def normals64(bits: np.ndarray) -> np.ndarray:
    uniform = uniform64(bits)
    return normals(1 - uniform[0::2], uniform[1::2])


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(("counter", "seed", "expected"), [
    ((0, 0, 0, 0), 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ((MASK,) * 4, (1 << 64) - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), 0x299F31D0A4093822,
     [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
])
def test_the_plain_implementation_gives_the_published_answers(
    counter: tuple[int, ...], seed: int, expected: list[int]
) -> None:
    assert philox(counter, seed) == expected


def test_first_block_of_seed_zero_is_the_published_one(device: str) -> None:
    torch.manual_seed(0)
    known = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert torch.rand(4).tolist() == [(word >> 8) * 2.0**-24 for word in known]


@pytest.mark.parametrize("seed", SEEDS)
def test_rand_bits(device: str, host: Callable[[Any], np.ndarray], seed: int) -> None:
    torch.manual_seed(seed)
    np.testing.assert_array_equal(host(torch.rand(3, 3)).ravel(), uniform32(words(seed, 9)))
    # Nine numbers took three blocks.
    np.testing.assert_array_equal(host(torch.rand(5, dtype=torch.float64)), uniform64(words(seed, 10, first=3)))


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_randn_is_box_and_muller(device: str, host: Callable[[Any], np.ndarray], seed: int) -> None:
    torch.manual_seed(seed)
    np.testing.assert_allclose(host(torch.randn(11)), normals32(words(seed, 12))[:11], rtol=1e-5, atol=1e-6)
    drawn = torch.randn(6, dtype=torch.float64)
    np.testing.assert_allclose(host(drawn), normals64(words(seed, 12, first=3)), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("low", "high"), [
    (0, 10), (-5, 6), (7, 8), (0, (1 << 31) + 1), (0, 1 << 40), (0, (1 << 53) - 1), (-(1 << 61), (1 << 62) + 12345),
    (5, (1 << 63) - 1), (-(1 << 62), 1 << 62)])
def test_randint_is_63_bits_modulo_the_range(device: str, low: int, high: int) -> None:
    torch.manual_seed(3)
    bits = words(3, 14)
    drawn = [((int(a) << 32 | int(b)) >> 1) % (high - low) + low for a, b in zip(bits[0::2], bits[1::2], strict=True)]
    assert torch.randint(low, high, (7,)).tolist() == drawn


def test_randint_with_one_bound_and_a_dtype() -> None:
    drawn = torch.randint(5, (100,), dtype=torch.int32)
    assert drawn.dtype is torch.int32
    assert set(drawn.tolist()) == {0, 1, 2, 3, 4}


def test_chunks_of_whole_blocks_are_one_stream(device: str) -> None:
    torch.manual_seed(7)
    whole = torch.rand(24).tolist()
    torch.manual_seed(7)
    assert [x for size in (4, 12, 8) for x in torch.rand(size).tolist()] == whole
    torch.manual_seed(7)
    torch.rand(1)  # a started block is used up
    assert torch.rand(20).tolist() == whole[4:]


def test_blocks_beyond_32_bits_use_the_second_counter_word(device: str, host: Callable[[Any], np.ndarray]) -> None:
    first = (1 << 32) - 1
    state = np.array([11, first], np.uint64).view(np.uint8)
    torch.set_rng_state(torch.tensor(state))
    np.testing.assert_array_equal(host(torch.rand(8)), uniform32(words(11, 8, first)))


def test_manual_seed_reaches_every_device() -> None:
    torch.manual_seed(99)
    numbers = [torch.rand(6, device=name).tolist() for name in ("ref", "ref:1", "plain")]
    assert numbers[0] == numbers[1] == numbers[2] == uniform32(words(99, 6)).tolist()
    assert torch.initial_seed() == 99


def test_generators_made_later_start_with_the_seed_of_the_process() -> None:
    torch.manual_seed(123)
    assert torch.Generator("ref").initial_seed() == 123


def test_negative_seeds_count_from_the_top() -> None:
    torch.manual_seed(-1)
    assert torch.initial_seed() == (1 << 64) - 1
    assert torch.rand(4).tolist() == uniform32(words((1 << 64) - 1, 4)).tolist()


@pytest.mark.parametrize("seed", [1 << 64, -(1 << 63) - 1])
def test_seeds_fit_64_bits(seed: int) -> None:
    with pytest.raises(ArgumentError, match=r"\[manual_seed\] .* — a seed fits 64 bits — "):
        torch.manual_seed(seed)
    assert torch.initial_seed() == 0


def test_state_is_saved_and_restored(device: str) -> None:
    torch.rand(5)
    state = torch.get_rng_state()
    assert state.dtype is torch.uint8
    assert state.shape == (16,)
    first = torch.randn(9).tolist()
    assert torch.randn(9).tolist() != first
    torch.set_rng_state(state)
    assert torch.randn(9).tolist() == first


def test_generators_are_independent(device: str) -> None:
    one, two = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    before = torch.get_rng_state().tolist()
    assert torch.rand(4, generator=one).tolist() == torch.rand(4, generator=two).tolist()
    assert torch.get_rng_state().tolist() == before
    two.set_state(one.get_state())
    assert torch.randint(100, (8,), generator=one).tolist() == torch.randint(100, (8,), generator=two).tolist()
    assert two.initial_seed() == 5


def test_seed_is_new_every_time() -> None:
    generator = torch.Generator()
    assert generator.seed() != generator.seed()
    assert generator.initial_seed() < 1 << 64


def test_a_generator_decides_about_the_device() -> None:
    generator = torch.Generator("ref:1")
    assert str(generator.device) == "ref:1"
    assert str(torch.rand(2, generator=generator).device) == "ref:1"
    assert str(torch.randint(3, (2,), generator=generator).device) == "ref:1"
    assert str(torch.randperm(3, generator=generator).device) == "ref:1"


@pytest.mark.parametrize("bad", [np.zeros(15, np.uint8), np.zeros((4, 4), np.uint8)])
def test_only_states_are_restored(bad: np.ndarray) -> None:
    with pytest.raises(ShapeError, match=r"\[set_state\] .* — a state has 16 bytes — pass what get_state returned"):
        torch.set_rng_state(torch.tensor(bad))


def test_moments_of_uniform_and_normal(host: Callable[[Any], np.ndarray]) -> None:
    count = 20_000
    uniform, normal = host(torch.rand(count)), host(torch.randn(count))
    assert uniform.min() >= 0
    assert uniform.max() < 1
    # Five standard errors of each moment.
    assert abs(uniform.mean() - 1 / 2) < 5 * np.sqrt(1 / 12 / count)
    assert abs(uniform.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / count)
    assert abs(normal.mean()) < 5 / np.sqrt(count)
    assert abs(normal.var() - 1) < 5 * np.sqrt(2 / count)
    assert abs((normal**3).mean()) < 5 * np.sqrt(15 / count)
    assert abs((normal**4).mean() - 3) < 5 * np.sqrt(96 / count)
    assert abs(np.corrcoef(normal[0::2], normal[1::2])[0, 1]) < 5 / np.sqrt(count / 2)


def test_randperm_is_a_permutation_that_the_seed_decides() -> None:
    torch.manual_seed(4)
    first = torch.randperm(50)
    assert sorted(first.tolist()) == list(range(50))
    keys = words(4, 100).astype(object)
    assert first.tolist() == np.argsort((keys[0::2] << 32 | keys[1::2]) >> 1, kind="stable").tolist()
    assert torch.randperm(0).tolist() == []


def test_like_forms_follow_shape_dtype_and_device() -> None:
    model = torch.zeros(2, 3, dtype=torch.float64, device="ref:1")
    for draw in (torch.rand_like, torch.randn_like):
        drawn = draw(model)
        assert (drawn.shape, drawn.dtype, drawn.device) == (model.shape, model.dtype, model.device)
    torch.manual_seed(8)
    assert torch.rand_like(model).tolist() == uniform64(words(8, 12)).reshape(2, 3).tolist()
    assert torch.rand_like(model, dtype=torch.float32, device="ref").dtype is torch.float32


def test_half_precision_numbers_stay_in_range() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        drawn = np.array(torch.rand(500, dtype=dtype).tolist())
        assert drawn.min() >= 0
        assert drawn.max() <= 1
        assert 0.4 < drawn.mean() < 0.6


def test_requires_grad_and_empty_draws() -> None:
    assert torch.rand(2, requires_grad=True).requires_grad
    before = torch.get_rng_state().tolist()
    assert torch.randn(0, 3).shape == (0, 3)
    assert torch.get_rng_state().tolist() == before


def test_in_place_draws(device: str, host: Callable[[Any], np.ndarray]) -> None:
    torch.manual_seed(6)
    x = torch.zeros(2, 4)
    assert random.uniform_(x, -2.0, 2.0) is x
    np.testing.assert_allclose(host(x).ravel(), uniform32(words(6, 8)) * 4 - 2, rtol=1e-6, atol=1e-6)
    random.normal_(x, 3.0, 0.5)
    np.testing.assert_allclose(host(x).ravel(), normals32(words(6, 8, first=2)) * 0.5 + 3, rtol=1e-5)
    assert x._version == 2


def test_bernoulli_compares_with_a_uniform_number(device: str) -> None:
    torch.manual_seed(6)
    p = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])
    assert torch.bernoulli(p).tolist() == (uniform32(words(6, 5)) < np.array(p.tolist())).astype(float).tolist()


@pytest.mark.parametrize(("draw", "error", "message"), [
    (lambda: torch.randint(3, 3, (2,)), ArgumentError, "[randint] low=3, high=3 — low is less than high"),
    (lambda: torch.randint(3), ArgumentTypeError, "[randint] size=None — size is a tuple of ints"),
    (lambda: torch.randint(0, 3, 2), ArgumentTypeError, "[randint] size=2 — size is a tuple of ints"),
    (lambda: torch.randint(0, 129, (2,), dtype=torch.int8), ArgumentError, "[randint] 128 for int8 — the dtype holds"),
    (lambda: torch.randperm(-1), ArgumentError, "[randperm] n=-1 — n is not negative"),
    (lambda: random.uniform_(torch.zeros(2), 1.0, 0.0), ArgumentError, "[uniform_] a=1.0, b=0.0 — a is not greater"),
    (lambda: random.normal_(torch.zeros(2), 0.0, -1.0), ArgumentError, "[normal_] std=-1.0 — a standard deviation is"),
    (lambda: torch.rand(2, dtype=torch.int64), DtypeError, "[rand] dtype int64 — "),
], ids=range(8))
def test_wrong_arguments(draw: Callable[[], Any], error: type[Exception], message: str) -> None:
    before = torch.get_rng_state().tolist()
    with pytest.raises(error, match=re.escape(message)):
        draw()
    assert torch.get_rng_state().tolist() == before


@pytest.mark.parametrize("count", [1, 127, 128, 129, 300])
def test_draws_of_any_size_are_the_beginning_of_one_stream(
    device: str, host: Callable[[Any], np.ndarray], count: int
) -> None:
    torch.manual_seed(21)
    np.testing.assert_array_equal(host(torch.rand(count)), uniform32(words(21, count)))
    torch.manual_seed(21)
    np.testing.assert_array_equal(host(torch.rand(count, dtype=torch.float64)), uniform64(words(21, 2 * count)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_in_place_are_scaled_and_shifted(device: str, host: Callable[[Any], np.ndarray], dtype: str) -> None:
    kind, words_of = np.dtype(dtype).type, (uniform32 if dtype == "float32" else uniform64)
    size = 9 if dtype == "float32" else 18
    filled = torch.zeros(9, dtype=getattr(torch, dtype))
    torch.manual_seed(2)
    filled.uniform_(-1.5, 0.7)
    expected = words_of(words(2, size)).astype(kind) * kind(0.7 + 1.5) + kind(-1.5)
    np.testing.assert_array_equal(host(filled), expected)
    torch.manual_seed(2)
    filled.bernoulli_(0.3)
    np.testing.assert_array_equal(host(filled), words_of(words(2, size)) < kind(0.3))
    torch.manual_seed(2)
    filled.normal_(2.0, 3.0)
    expected = (normals32 if dtype == "float32" else normals64)(words(2, 40))[:9] * 3 + 2
    np.testing.assert_allclose(host(filled), expected, rtol=2e-5 if dtype == "float32" else 1e-12)
    assert filled._version == 3


def test_parts_are_filled_alone() -> None:
    whole = torch.zeros(2, 6)
    whole[0].uniform_(1.0, 2.0)
    whole[:, 3].normal_(10.0, 0.1)
    assert whole._version == 2
    values = np.array(whole.tolist())
    assert (values[0, [0, 1, 2, 4, 5]] >= 1).all()
    assert (values[:, 3] > 9).all()
    assert (values[1, [0, 1, 2, 4, 5]] == 0).all()


def test_draws_in_inference_mode_are_marked() -> None:
    with torch.inference_mode():
        drawn = [torch.rand(2), torch.randn(2), torch.randint(3, (2,)), torch.randperm(2)]
        drawn.append(torch.rand_like(drawn[0]))
    assert all(x.is_inference() for x in drawn)


def test_nothing_is_drawn_in_any_dtype():
    assert torch.randn(0, 2, dtype=torch.int16).shape == (0, 2)
    with pytest.raises(NotImplementedError, match="random floats have a floating-point dtype"):
        torch.randn(1, dtype=torch.int16)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_uniform_numbers_are_less_than_one(dtype: str) -> None:
    # One of some thousands would round to 1.
    kind = getattr(torch, dtype)
    drawn = torch.rand(200_000, dtype=kind).to(torch.float32)
    step = 2.0 ** -(11 if dtype == "float16" else 8)
    assert drawn.amax().item() == 1 - step
    assert drawn.amin().item() == 0.0
    assert abs(drawn.mean().item() - 0.5) < 0.005


def test_integers_of_the_whole_range_of_int64() -> None:
    torch.manual_seed(0)
    x = torch.randint(-2**63, 2**63 - 1, (2000,)).numpy(force=True)
    for sign in (-1, 1):
        same = x[np.sign(x) == sign].astype(np.float64)
        assert 850 < len(same) < 1150
        assert 850 < 2 * (np.abs(same) > 2.0**62).sum() < 1150


def test_blocks_of_draws_aside_may_be_nested(device: str) -> None:
    state = open_device(device)
    before = generator_of(state).position
    with draws_aside() as outer:
        first = generator_of(state)
        with draws_aside() as inner:
            second = generator_of(state)
        third = generator_of(state)
    assert outer == [first, third]
    assert inner == [second]
    assert generator_of(state).position == before
