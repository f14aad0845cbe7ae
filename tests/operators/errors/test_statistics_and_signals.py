"""Errors of statistics, histograms, arrangements, signals, masks and random numbers: class, operator and rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.formats import layout
from tensocket_operators import functions as F
from tensocket_operators import random
from tensocket_operators.signal import signal_windows as windows
from tensocket_plugins.contract.errors import TensocketError


def f(*shape: int) -> Any:
    return torch.ones(*shape)


def i(*values: int) -> Any:
    return torch.tensor(list(values))


def c(*shape: int) -> Any:
    return torch.ones(*shape, dtype=torch.complex64)


def full(value: float, *shape: int) -> Any:
    return torch.full(shape, value)


Case = tuple[Callable[[], Any], type[Exception], str, str]
#: The failing call, PyTorch's class, the operator that the message names, and the rule.
CASES: list[Case] = [
    # order
    (lambda: F.median(f(0, 2), 0), IndexError, "median", "the dimension has elements"),
    (lambda: F.median(c(2)), NotImplementedError, "median", "median is defined for real numbers"),
    (lambda: F.kthvalue(f(0, 2), 1, 0), IndexError, "kthvalue", "the dimension has at least one element"),
    (lambda: f(2).flip(), TypeError, "flip", "the dims to reverse are given"),
    (lambda: F.kthvalue(f(2), 3), RuntimeError, "kthvalue", "k lies between 1 and the dimension's size"),
    (lambda: F.quantile(i(1), 0.5), RuntimeError, "quantile", "quantiles are of float32 or float64"),
    (lambda: F.quantile(f(0), 0.5), RuntimeError, "quantile", "there are elements"),
    (lambda: F.quantile(f(2), 0.5, interpolation="x"), RuntimeError, "quantile", "it is one of linear, lower"),
    (lambda: F.quantile(f(2), f(1, 1)), RuntimeError, "quantile", "q is a number or a vector"),
    (lambda: F.quantile(f(2), f(1).to(torch.float64)), RuntimeError, "quantile", "q has the dtype of the elements"),
    (lambda: F.nanquantile(f(2), 1.5), RuntimeError, "nanquantile", "q lies between 0 and 1"),
    (lambda: F.quantile(f(2), full(2.0, 1)), RuntimeError, "quantile", "q lies between 0 and 1"),
    # reductions and counts
    (lambda: F.nanmean(i(1)), RuntimeError, "nanmean", "means are of floating-point numbers"),
    (lambda: F.hash_tensor(f(1), mode=1), RuntimeError, "hash_tensor", "the only mode is 0"),
    (lambda: F.hash_tensor(c(1)), NotImplementedError, "hash_tensor", "hashes are of real numbers"),
    (lambda: F.bincount(f(1)), NotImplementedError, "bincount", "integers are counted"),
    (lambda: F.bincount(i(1), minlength=1.5), TypeError, "bincount", "minlength is an integer"),  # type: ignore
    (lambda: F.bincount(i(1), minlength=-1), RuntimeError, "bincount", "minlength is not negative"),
    (lambda: F.bincount(i(1).reshape(1, 1)), RuntimeError, "bincount", "the values are a vector"),
    (lambda: F.bincount(i(1), f(2)), RuntimeError, "bincount", "there is one weight for every value"),
    (lambda: F.bincount(i(-1)), RuntimeError, "bincount", "counted integers are not negative"),
    # histograms
    (lambda: F.histc(i(1)), NotImplementedError, "histc", "histograms are of real floating-point numbers"),
    (lambda: F.histc(f(2), 4, 3, 0), RuntimeError, "histc", "max is not less than min"),
    (lambda: F.histc(f(2), 0), RuntimeError, "histc", "there is at least one bin"),
    (lambda: F.histc(full(float("inf"), 1)), RuntimeError, "histc", "the range is finite"),
    (lambda: F.histogram(f(2), 2, range=(1.0, 0.0)), RuntimeError, "histogram", "max is not less than min"),
    (lambda: F.histogram(f(2), i(0, 1)), RuntimeError, "histogram", "bounds have the points' dtype"),
    (lambda: F.histogram(f(2), f(1, 2)), RuntimeError, "histogram", "bounds of bins are a vector"),
    (lambda: F.histogram(f(2), 2, weight=f(3)), RuntimeError, "histogram", "there is one weight for every element"),
    (lambda: F.histogram(f(2), 2, weight=i(1, 2)), RuntimeError, "histogram", "weights have the elements' dtype"),
    (lambda: F.histogramdd(f(2), 2), RuntimeError, "histogramdd",
     "the last of at least 2 dimensions holds coordinates"),
    (lambda: F.histogramdd(f(2, 1), 2, weight=f(3)), RuntimeError, "histogramdd",
     "there is one weight for every point"),
    (lambda: F.histogramdd(f(2, 1), 2, weight=i(1, 2)), RuntimeError, "histogramdd", "weights have the points' dtype"),
    (lambda: F.histogramdd(f(2, 1), 2, range=[0.0]), RuntimeError, "histogramdd", "every coordinate has two bounds"),
    (lambda: F.histogramdd(f(2, 1), [2, 2]), RuntimeError, "histogramdd", "there are bins for every coordinate"),
    # arrangements
    (lambda: F.diag(f(1, 1, 1)), RuntimeError, "diag", "the tensor is a vector or a matrix"),
    (lambda: F.diag_embed(f(2), dim1=0, dim2=0), RuntimeError, "diag_embed", "a diagonal lies between two different"),
    (lambda: F.block_diag([f(1)]), TypeError, "block_diag", "arguments are tensors"),
    (lambda: F.block_diag(f(1, 1, 1)), RuntimeError, "block_diag", "blocks have at most two dimensions"),
    (lambda: F.fliplr(f(2)), RuntimeError, "fliplr", "there are at least two dimensions"),
    (lambda: F.flipud(torch.tensor(1.0)), RuntimeError, "flipud", "there is at least one dimension"),
    (lambda: F.rot90(f(2, 2), 1, [0]), RuntimeError, "rot90", "a plane has two dims"),
    (lambda: F.rot90(f(2, 2), 1, [0, -2]), RuntimeError, "rot90", "the dims of a plane are different"),
    (lambda: torch.tril_indices(-1, 2), RuntimeError, "tril_indices", "sizes are not negative"),
    (lambda: torch.triu_indices(1, 1, dtype=torch.float32), NotImplementedError, "triu_indices", "indices are integ"),
    (lambda: F.unravel_index(i(1), "a"), TypeError, "unravel_index", "a shape is an integer or a sequence of integers"),
    (lambda: F.unravel_index(i(1), (-1,)), ValueError, "unravel_index", "sizes are not negative"),
    (lambda: F.unravel_index(f(1), (2,)), TypeError, "unravel_index", "positions are integers"),
    (lambda: F.nonzero_static(f(1), size=-1), RuntimeError, "nonzero_static", "the size is not negative"),
    (lambda: F.fill(f(2), f(2)), RuntimeError, "fill", "the value is a number or a 0-dimensional tensor"),
    (lambda: torch.logspace(f(1), 2, 3), RuntimeError, "logspace", "bounds are numbers"),
    (lambda: torch.logspace(0, 1j, 3, dtype=torch.float32), ValueError, "logspace", "real numbers have no imaginary"),
    (lambda: torch.logspace(0, 1, -1), RuntimeError, "logspace", "the number of steps is not negative"),
    (lambda: torch.arange(0, 4, 0.5, dtype=torch.int64), ValueError, "arange",
     "a step of integers is a whole one, not zero"),
    (lambda: F.roll(f(2), []), RuntimeError, "roll", "there is at least one shift"),
    (lambda: F.narrow(f(2), 0, f(1) > 0, 1), RuntimeError, "narrow",
     "a start is an integer, or a 0-dimensional tensor of one"),
    (lambda: F.masked_scatter(f(2), i(1, 0), f(2)), RuntimeError, "masked_scatter", "a mask is of bools"),
    (lambda: F.masked_fill(f(2), f(2) > 0, 1j), RuntimeError, "masked_fill", "a real tensor holds no complex value"),
    # choices and derivatives
    (lambda: F.cartesian_prod(), RuntimeError, "cartesian_prod", "there is at least one"),
    (lambda: F.cartesian_prod([f(1)]), TypeError, "cartesian_prod", "arguments are tensors"),
    (lambda: F.cartesian_prod(f(1, 1)), RuntimeError, "cartesian_prod", "all are vectors"),
    (lambda: F.cartesian_prod(f(1), i(1)), RuntimeError, "cartesian_prod", "all have one dtype"),
    (lambda: F.combinations(f(1, 1)), RuntimeError, "combinations", "the tensor is a vector"),
    (lambda: F.combinations(f(1), -1), RuntimeError, "combinations", "choices have no negative number of elements"),
    (lambda: F.gradient(f(3), edge_order=3), RuntimeError, "gradient", "the order is 1 or 2"),
    (lambda: F.gradient(f(3) > 0), RuntimeError, "gradient", "differences are of numbers"),
    (lambda: F.gradient(f(2), edge_order=2), RuntimeError, "gradient",
     "a dimension has more points than the order of its ends"),
    (lambda: F.gradient(f(3), spacing=[f(2)]), RuntimeError, "gradient", "there is one coordinate for every point"),
    (lambda: F.gradient(f(3, 3), spacing=[1.0]), RuntimeError, "gradient",
     "there is one spacing, or one for every dimension"),
    (lambda: F.gradient(f(3, 3), spacing=[1.0, f(3)]), TypeError, "gradient", "spacings are of one kind"),
    # spectrograms
    (lambda: F.stft(f(9), 4), RuntimeError, "stft", "the form of the result is chosen"),
    (lambda: F.stft(f(9), 4, return_complex=True, align_to_window=True), RuntimeError, "stft",
     "windows are centred or aligned"),
    (lambda: F.stft(i(1), 4, return_complex=True), RuntimeError, "stft", "signals are of floating-point numbers"),
    (lambda: F.stft(f(1, 1, 9), 4, return_complex=True), RuntimeError, "stft",
     "signals are vectors or rows, not empty"),
    (lambda: F.stft(f(9), 40, return_complex=True), RuntimeError, "stft", "a signal is longer than its mirrored parts"),
    (lambda: F.stft(f(9), 4, pad_mode="x", return_complex=True), RuntimeError, "stft",
     "signals are continued by 'reflect', 'constant', 'replicate' or 'circular'"),
    (lambda: F.stft(f(9), 10, center=False, return_complex=True), RuntimeError, "stft",
     "a transform lies within the signal"),
    (lambda: F.stft(f(9), 4, win_length=5, return_complex=True), RuntimeError, "stft",
     "a window lies within the transform"),
    (lambda: F.stft(f(9), 4, hop_length=0, return_complex=True), RuntimeError, "stft",
     "windows advance, and leave no gap for an inverse"),
    (lambda: F.stft(f(9), 4, window=f(3), return_complex=True), RuntimeError, "stft",
     "the window is a vector of 4 numbers"),
    (lambda: F.stft(c(9), 4, onesided=True), RuntimeError, "stft", "only real values have mirrored frequencies"),
    (lambda: F.istft(f(3, 2), 4), RuntimeError, "istft", "spectra are complex"),
    (lambda: F.istft(c(0, 2), 4), RuntimeError, "istft",
     "spectra are (frequencies, transforms), with a batch dimension or without, not empty"),
    (lambda: F.istft(c(3, 2), 6), RuntimeError, "istft", "onesided=True makes 4 frequencies"),
    (lambda: F.istft(c(3, 2), 4, window=c(4)), RuntimeError, "istft", "a real signal has a real window"),
    (lambda: F.istft(c(3, 2), 4, return_complex=True), RuntimeError, "istft",
     "only real signals have mirrored frequencies"),
    (lambda: F.istft(c(3, 2), 4, window=f(4) * 0), RuntimeError, "istft", "every point lies in a window"),
    # windows
    (lambda: windows.hann(-1), ValueError, "hann", "the number of points is not negative"),
    (lambda: windows.hann(3, dtype=torch.int64), ValueError, "hann", "windows are of float32 or float64"),
    (lambda: windows.hann(3, layout=layout("sparse_coo")), ValueError, "hann", "tensors are strided"),
    (lambda: windows.exponential(3, tau=0), ValueError, "exponential", "a decay is positive"),
    (lambda: windows.exponential(3, center=1), ValueError, "exponential",
     "the center of a symmetric window is its middle"),
    (lambda: windows.gaussian(3, std=0), ValueError, "gaussian", "a standard deviation is positive"),
    (lambda: windows.general_cosine(3, a=1), TypeError, "general_cosine", "coefficients are a list or a tuple"),
    (lambda: windows.general_cosine(3, a=[]), ValueError, "general_cosine", "there is at least one"),
    (lambda: windows.kaiser(3, beta=-1), ValueError, "kaiser", "a shape is not negative"),
    (lambda: torch.hann_window(-1), RuntimeError, "hann_window", "a length is not negative"),
    (lambda: torch.hann_window(1, dtype=torch.int64), RuntimeError, "hann_window", "windows are of real floats"),
    # masks
    (lambda: F.masked_sum(f(2), mask=f(1, 2) > 0), IndexError, "masked.sum", "a mask broadcasts to the tensor's shape"),
    (lambda: F.masked_sum(f(2), mask=f(3) > 0), RuntimeError, "masked.sum",
     "only dimensions of size 1 can be expanded"),
    (lambda: F.masked_mean(i(1)), ValueError, "masked.mean", "means are of floating-point numbers"),
    (lambda: F.masked_median(i(1), 0, mask=f(1) > 1), ValueError, "masked.median",
     "a median of integers is that of some"),
    (lambda: F.masked_var(f(2), 0, True, correction=1), TypeError, "masked.var", "only one of both is given"),
    # random numbers
    (lambda: random.cauchy_(f(1), 0.0, 0.0), RuntimeError, "cauchy_", "a width is positive"),
    (lambda: random.cauchy_(i(1)), RuntimeError, "cauchy_", "the distribution is one of real floats"),
    (lambda: random.exponential_(f(1), 0.0), RuntimeError, "exponential_", "a rate is positive"),
    (lambda: random.log_normal_(f(1), 0.0, 0.0), RuntimeError, "log_normal_", "a standard deviation is positive"),
    (lambda: random.geometric_(f(1), 1.0), RuntimeError, "geometric_",
     "the probability lies between 0 and 1, both excluded"),
    (lambda: random.geometric_(c(1), 0.5), NotImplementedError, "geometric_", "counts are real numbers"),
    (lambda: random.random_(c(1)), NotImplementedError, "random_", "whole numbers are real"),
    (lambda: random.random_(f(1), 1.5), TypeError, "random_", "bounds are integers"),  # type: ignore[arg-type]
    (lambda: random.random_(f(1), 5, 5), RuntimeError, "random_", "from is less than to"),
    (lambda: random.random_(i(1), -(1 << 63) - 1, 0), RuntimeError, "random_", "from is out of bounds for int64"),
    (lambda: random.random_(i(1), **{"from": 0, "low": 1, "size": 1}), TypeError, "random_",  # type: ignore[arg-type]
     "the bounds are called from and to"),
    (lambda: random.random_(torch.empty(1, dtype=torch.uint8), -1, 5), RuntimeError, "random_",
     "from is out of bounds for uint8"),
    (lambda: random.random_(torch.empty(1, dtype=torch.bool_), 0, 3), RuntimeError, "random_",
     "to - 1 is out of bounds for bool"),
    (lambda: random.random_(torch.empty(1, dtype=torch.float16), 0, 70000), RuntimeError, "random_",
     "to - 1 is out of bounds for float16"),
    (lambda: random.uniform_(f(1), -3e38, 3e38), RuntimeError, "uniform_",
     "the bounds and their distance are finite numbers of the dtype"),
    (lambda: torch.randperm(2050, dtype=torch.float16), RuntimeError, "randperm",
     "the dtype holds all numbers below n"),
    (lambda: torch.meshgrid(f(1), i(1)), RuntimeError, "meshgrid", "all vectors have one dtype"),
    (lambda: torch.meshgrid(f(1), f(1).to("meta")), RuntimeError, "meshgrid", "all vectors are on one device"),
    (lambda: random.bernoulli_(f(1), 1.5), RuntimeError, "bernoulli_", "a probability lies between 0 and 1"),
    (lambda: torch.bernoulli(f(1) * 2), RuntimeError, "bernoulli", "a probability lies between 0 and 1"),
    (lambda: torch.normal(0.0, 1.0), TypeError, "normal", "numbers have a size, tensors have a shape"),
    (lambda: torch.normal(f(1), c(1)), RuntimeError, "normal", "standard deviations are real"),
    (lambda: torch.normal(f(1), -f(1)), RuntimeError, "normal", "a standard deviation is not negative"),
    (lambda: torch.multinomial(f(1, 1, 1), 1), RuntimeError, "multinomial",
     "weights are a vector, or the rows of a matrix"),
    (lambda: torch.multinomial(f(2), 0), RuntimeError, "multinomial", "there is at least one sample"),
    (lambda: torch.multinomial(f(2), 3), RuntimeError, "multinomial", "a category is drawn once without replacement"),
    (lambda: torch.multinomial(-f(2), 1), RuntimeError, "multinomial", "weights are finite and not negative"),
    (lambda: torch.multinomial(f(2) * 0, 1), RuntimeError, "multinomial", "a category has a positive weight"),
    (lambda: torch.multinomial(f(2), 1, out=f(1)), RuntimeError, "multinomial", "categories are int64"),
    (lambda: torch.poisson(-f(1)), RuntimeError, "poisson", "rates are not negative"),
    (lambda: torch.binomial(f(1), f(1).to(torch.float64)), RuntimeError, "binomial", "both have one dtype"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[2]}: {case[3]}")
def test_error(case: Case) -> None:
    call, theirs, operator, rule = case
    with pytest.raises(TensocketError) as caught:
        call()
    assert isinstance(caught.value, theirs)
    assert caught.value.operator == operator
    assert rule in caught.value.rule
