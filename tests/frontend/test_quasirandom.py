"""Sobol sequences."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import ArgumentError

#: The first points in two dimensions (Joe and Kuo, 2010), and those that PyTorch's documentation has for five.
PLAIN = [[0, 0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75], [0.375, 0.375], [0.875, 0.875], [0.625, 0.125], [0.125, 0.625]]
OF_FIVE = [[0, 0, 0, 0, 0], [0.5, 0.5, 0.5, 0.5, 0.5], [0.75, 0.25, 0.25, 0.25, 0.75]]
#: The points that PyTorch draws for seed 123456.
SCRAMBLED = [[0.50860737, 0.29320504], [0.07116939, 0.89594537], [0.49354145, 0.11524881], [0.93097717, 0.70244044],
             [0.87266153, 0.23887917], [0.31021884, 0.57600391], [0.13687253, 0.42054182], [0.69931293, 0.77336788]]


@pytest.mark.parametrize(("scramble", "expected"), [(False, PLAIN), (True, SCRAMBLED)])
def test_points(scramble, expected):
    engine = torch.quasirandom.SobolEngine(2, scramble=scramble, seed=123456)
    np.testing.assert_allclose(engine.draw(3).numpy(), expected[:3], rtol=1e-6)
    np.testing.assert_allclose(engine.draw(1, dtype=torch.float64).numpy(), expected[3:4], rtol=1e-6)
    np.testing.assert_allclose(engine.draw_base2(2).numpy(), expected[4:], rtol=1e-6)
    assert engine.num_generated == 8
    np.testing.assert_allclose(engine.quasi.numpy() / 2 ** 30, expected[7], rtol=1e-6)
    out = torch.empty(0)
    assert engine.reset().fast_forward(5).draw(2, out=out) is out
    np.testing.assert_allclose(out.numpy(), expected[5:7], rtol=1e-6)


def test_points_of_more_dimensions():
    engine = torch.quasirandom.SobolEngine(dimension=5)
    assert engine.draw(3).tolist() == OF_FIVE
    assert repr(engine) == "SobolEngine(dimension=5)"
    assert repr(torch.quasirandom.SobolEngine(1, True, 3)) == "SobolEngine(dimension=1, scramble=True, seed=3)"


@pytest.mark.parametrize("scramble", [False, True])
def test_points_are_balanced(scramble):
    points = torch.quasirandom.SobolEngine(40, scramble=scramble).draw(64, dtype=torch.float64).numpy()
    # Each of 64 equal intervals has one point, in every dimension.
    for column in points.T:
        assert sorted((column * 64).astype(int)) == list(range(64))


def test_what_engines_refuse():
    for dimension in (0, 21202):
        with pytest.raises(ArgumentError, match="a dimension lies between 1 and 21201"):
            torch.quasirandom.SobolEngine(dimension)
    engine = torch.quasirandom.SobolEngine(1)
    engine.draw(3)
    with pytest.raises(ArgumentError, match="the balance of the points requires that their number is a power of two"):
        engine.draw_base2(1)
    with pytest.raises(ArgumentError, match="a sequence has 1073741824 points"):
        engine.fast_forward(1 << 30).draw(1)
