"""Statistics, histograms, windows and masks beyond their samples: ties, NaN, gradients, forms of calls."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F
from tensocket_operators.differentiation.gradcheck import gradcheck, gradgradcheck
from tensocket_operators.signal import signal_windows as windows
from tensocket_operators.transforms import jvp, vmap
from tensocket_plugins.contract.errors import TensocketError

NAN = math.nan


def test_medians_with_gaps() -> None:
    x = torch.tensor([1.0, NAN, 3.0, NAN, 2.0])
    assert math.isnan(F.median(x).item())
    assert F.nanmedian(x).item() == 2.0
    values, indices = F.median(x, 0)
    assert math.isnan(values.item())
    assert indices.item() == 1
    assert F.nanmedian(torch.tensor([NAN, NAN]), 0).indices.item() == 0
    assert math.isnan(F.median(torch.empty(0)).item())
    assert F.median(torch.empty(0, dtype=torch.int64)).item() == -(1 << 63)


def test_equal_elements_share_the_gradient_of_a_median() -> None:
    x = torch.tensor([2.0, 1.0, 2.0, 5.0], requires_grad=True)
    F.median(x).backward()
    assert x.grad.tolist() == [0.5, 0.0, 0.5, 0.0]


def test_the_mode_is_the_smallest_of_several_and_last_of_its_places() -> None:
    values, indices = F.mode(torch.tensor([[3, 1, 1, 2, 3], [4, 4, 0, 0, 1]]))
    assert values.tolist() == [1, 0]
    assert indices.tolist() == [2, 3]
    assert F.mode(torch.tensor([NAN, 1.0, 1.0, NAN])).values.item() == 1.0


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_between_elements(interpolation: str) -> None:
    x, q = np.array([[5.0, 1.0, 4.0], [2.0, 8.0, 3.0]]), np.array([0.0, 0.3, 0.75, 1.0])
    expected = np.quantile(x, q, axis=1, method=interpolation)
    found = F.quantile(torch.tensor(x), torch.tensor(q), 1, interpolation=interpolation)
    np.testing.assert_allclose(np.array(found.tolist()), expected, rtol=1e-12)
    assert F.quantile(torch.tensor(x), 0.5, keepdim=True).shape == (1, 1)
    assert math.isnan(F.quantile(torch.tensor([1.0, NAN]), 0.0).item())


def test_gradients_of_statistics() -> None:
    x = torch.tensor([[0.3, -1.2, 2.0], [1.5, 0.1, -0.7]], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor(0.3, dtype=torch.float64)
    for function in (lambda v: F.quantile(v, weight, 1), lambda v: F.nansum(v, 0),
                     lambda v: F.kthvalue(v, 2, 1).values, lambda v: F.diag_embed(v, 1), lambda v: F.rot90(v),
                     lambda v: F.gradient(v, spacing=[torch.tensor([0.0, 2.0], dtype=torch.float64),
                                                      torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)])[1]):
        assert gradcheck(function, (x,))


def test_running_logarithms_differentiate_in_every_way() -> None:
    x = torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda v: F.logcumsumexp(v, 0), (x,))
    assert gradgradcheck(lambda v: F.logcumsumexp(v, 0), (x,))
    tangent = np.array([1.0, 0.0, -2.0])
    found = jvp(lambda v: F.logcumsumexp(v, 0), (x.detach(),), (torch.tensor(tangent),))[1]
    weights = np.exp(np.array(x.tolist()))
    np.testing.assert_allclose(found.tolist(), np.cumsum(weights * tangent) / np.cumsum(weights), rtol=1e-12)
    batch = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    assert vmap(lambda v: F.logcumsumexp(v, 0))(batch).tolist() == F.logcumsumexp(batch, 1).tolist()


def test_checks_of_values_see_every_example() -> None:
    with pytest.raises(TensocketError, match="a probability lies between 0 and 1"):
        vmap(torch.bernoulli, randomness="different")(torch.tensor([[0.5], [1.5]]))
    assert vmap(torch.poisson, randomness="different")(torch.tensor([[0.0], [0.0]])).tolist() == [[0.0], [0.0]]


def test_histograms_against_numpy() -> None:
    values = np.array([0.0, 0.1, 0.5, 0.99, 1.0, -0.2, 1.3])
    counts, edges = F.histogram(torch.tensor(values), 4, range=(0.0, 1.0), density=True)
    expected, bounds = np.histogram(values, 4, (0.0, 1.0), density=True)
    np.testing.assert_allclose(counts.tolist(), expected)
    np.testing.assert_allclose(edges.tolist(), bounds)
    given = np.array([-1.0, 0.0, 0.5, 2.0])
    np.testing.assert_allclose(F.histogram(torch.tensor(values), torch.tensor(given)).hist.tolist(),
                               np.histogram(values, given)[0])
    points = np.array([[0.0, 1.0], [0.4, 0.2], [0.9, 0.9], [1.0, 0.0]])
    weights = np.array([1.0, 2.0, 4.0, 8.0])
    found = F.histogramdd(torch.tensor(points), [3, 2], weight=torch.tensor(weights))
    np.testing.assert_allclose(found.hist.tolist(), np.histogramdd(points, [3, 2], weights=weights)[0])


def test_hashes_are_of_bits() -> None:
    words = np.array([1.5, -2.0, 0.25]).view(np.uint64)
    assert F.hash_tensor(torch.tensor([1.5, -2.0, 0.25])).item() == int(np.bitwise_xor.reduce(words))
    assert F.hash_tensor(torch.tensor([[1, 2], [4, 4]]), 1).tolist() == [3, 0]


def test_copies_of_views_have_memory_of_their_own() -> None:
    x = torch.arange(6).reshape(2, 3)
    copy = F.transpose_copy(x, 0, 1)
    assert copy.is_contiguous()
    assert copy._base is None
    copy.fill_(0)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    parts = [F.alias_copy(x), F.slice_copy(x, 1, 0, 3, 2), F.select_copy(x, 0, 1), *F.split_copy(x, 1)]
    assert [part.tolist() for part in parts] == [[[0, 1, 2], [3, 4, 5]], [[0, 2], [3, 5]], [3, 4, 5], [[0, 1, 2]],
                                                 [[3, 4, 5]]]


def test_choices_and_indices() -> None:
    assert F.combinations(torch.tensor([1, 2, 3]), 2, True).tolist() == [[1, 1], [1, 2], [1, 3], [2, 2], [2, 3], [3, 3]]
    assert F.combinations(torch.ones(2), 0).shape == (0,)
    assert F.cartesian_prod(torch.tensor([1, 2]), torch.tensor([5, 6])).tolist() == [[1, 5], [1, 6], [2, 5], [2, 6]]
    assert torch.tril_indices(2, 3, -1).tolist() == [[1], [0]]
    assert torch.triu_indices(2, 2, dtype=torch.int32).dtype is torch.int32
    assert [x.tolist() for x in F.unravel_index(torch.tensor([1, 5]), (2, 3))] == [[0, 1], [1, 2]]
    assert F.nonzero_static(torch.tensor([1, 0, 2]), size=4).tolist() == [[0], [2], [-1], [-1]]
    assert F.block_diag().shape == (1, 0)
    assert torch.logspace(0, 3, 4, 2.0).tolist() == [1.0, 2.0, 4.0, 8.0]


def test_powers_beyond_the_range_of_floats_raise_no_flag() -> None:
    with np.errstate(all="raise"):
        assert torch.logspace(0.0, 1e40, 2).tolist() == [1.0, math.inf]
        assert torch.logspace(-1e40, 1.0, 2).tolist() == [0.0, 10.0]


def test_spectrograms_go_back() -> None:
    rng = np.random.default_rng(0)
    signal = torch.tensor(rng.normal(size=(2, 40)))
    window = torch.hann_window(12, dtype=torch.float64)
    spectra = F.stft(signal, 16, 3, 12, window, normalized=True, return_complex=True)
    back = F.istft(spectra, 16, 3, 12, window, normalized=True, length=40)
    np.testing.assert_allclose(np.array(back.tolist()), np.array(signal.tolist()), atol=1e-12)
    with pytest.warns(UserWarning, match="a signal is cut or filled up with zeros"):
        assert F.istft(F.stft(signal, 16, 3, return_complex=True), 16, 3, length=60).shape == (2, 60)
    aligned = F.stft(signal, 8, 2, 5, center=False, return_complex=False, align_to_window=True)
    assert aligned.shape == (2, 5, 18, 2)


@pytest.mark.parametrize(("name", "reference"), [("bartlett", np.bartlett), ("blackman", np.blackman),
                                                 ("hamming", np.hamming), ("hann", np.hanning)])
def test_windows_against_numpy(name: str, reference: object) -> None:
    made = getattr(windows, name)(9, dtype=torch.float64)
    np.testing.assert_allclose(made.tolist(), reference(9), atol=1e-15)
    periodic = getattr(torch, f"{name}_window")(8, dtype=torch.float64)
    np.testing.assert_allclose(periodic.tolist(), reference(9)[:8], atol=1e-15)


def test_other_windows() -> None:
    points = np.arange(7)
    for made, expected in (
            (windows.kaiser(7, beta=5.0), np.kaiser(7, 5.0)), (torch.kaiser_window(7, False, 5.0), np.kaiser(7, 5.0)),
            (windows.cosine(7), np.sin(math.pi * (points + 0.5) / 7)),
            (windows.gaussian(7, std=2.0), np.exp(-(((points - 3) / 2) ** 2) / 2)),
            (windows.exponential(7, center=1.0, tau=2.0, sym=False), np.exp(-abs(points - 1) / 2)),
            (windows.general_cosine(7, a=[1.0, 2.0]), 1 - 2 * np.cos(2 * math.pi * points / 6)),
            (windows.general_hamming(7, alpha=0.6), 0.6 - 0.4 * np.cos(2 * math.pi * points / 6)),
            (windows.nuttall(1), np.ones(1)), (torch.hann_window(0), np.ones(0))):
        np.testing.assert_allclose(made.tolist(), expected, atol=1e-6)


def test_masks_without_elements() -> None:
    x, none = torch.tensor([[1.0, 2.0]]), torch.tensor([[False, False]])
    assert F.masked_sum(x, 1, mask=none).tolist() == [0.0]
    assert F.masked_prod(x, 1, mask=none).tolist() == [1.0]
    assert F.masked_amax(x, 1, mask=none).tolist() == [-math.inf]
    assert F.masked_amin(torch.tensor([[1, 2]], dtype=torch.int8), 1, mask=none).tolist() == [127]
    assert all(math.isnan(v) for v in F.masked_mean(x, 1, mask=none).tolist() + F.masked_softmax(x, 1, mask=none)[0]
               .tolist())
    kept = torch.tensor([True, False])
    assert F.masked_median(torch.tensor([[3, 1]]), 1, mask=kept).tolist() == [3]
    assert F.masked_logaddexp(x, x, input_mask=none).tolist() == x.tolist()
    assert F.masked_cumsum(x, 1, mask=kept).tolist() == [[1.0, 1.0]]
    np.testing.assert_allclose(F.masked_normalize(torch.tensor([[3.0, 4.0]]), 2.0, 1, mask=kept).tolist(), [[1.0, 0.0]])
    assert F.masked_std(torch.tensor([1.0, 3.0, 9.0]), correction=0, mask=torch.tensor([True, True, False])).item() == 1


@pytest.mark.parametrize("call", [
    lambda x: x[:1].var(), lambda x: x[:1].std(), lambda x: x.var(correction=2), lambda x: x.std(0, correction=5),
    lambda x: x[:0].var(), lambda x: (x[:1] + 1j).var(), lambda x: torch.var_mean(x[:1])[0],
    lambda x: torch.std_mean(x[:1])[0],
])
def test_spreads_without_degrees_of_freedom_warn(call):
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert not math.isfinite(call(torch.tensor([1.0, 2.0])).item())


@pytest.mark.parametrize("broken", [complex(math.nan, 0), complex(0, math.nan), complex(math.nan, math.nan)])
@pytest.mark.parametrize("other", [1 + 1j, complex(-math.inf, 0), complex(-math.inf, 1), complex(math.inf, 0)])
def test_logarithms_of_complex_sums_keep_nan(broken: complex, other: complex) -> None:
    for first, second in ((broken, other), (other, broken)):
        x, y = torch.tensor([first]), torch.tensor([second])
        added = torch.logaddexp(x, y)
        for result in (added, torch.logcumsumexp(torch.cat([x, y]), 0)[1:]):
            assert torch.view_as_real(result).isnan().all()
    rows = torch.tensor([other, broken, other] * 100).reshape(100, 3)
    assert torch.view_as_real(torch.logcumsumexp(rows, 1)[:, 1:]).isnan().all()
