"""``default_generator`` is the generator of the CPU, an object as any other."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tensocket as torch


def test_it_is_a_generator_that_random_functions_use():
    generator = torch.default_generator
    assert isinstance(generator, torch.Generator)
    assert (generator.device, torch.random.default_generator) == (torch.device("cpu"), generator)
    torch.manual_seed(3)
    first = torch.rand(3)
    assert generator.initial_seed() == torch.initial_seed() == 3
    generator.manual_seed(3)
    assert torch.rand(3).tolist() == first.tolist()
    generator.manual_seed(3)
    assert torch.rand(3, generator=generator).tolist() == first.tolist()
    state = generator.get_state()
    assert state.tolist() == torch.get_rng_state().tolist()
    following = torch.rand(3)
    generator.set_state(state)
    assert torch.rand(3).tolist() == following.tolist()


def test_it_opens_the_cpu_when_asked_for():
    program = ("import sys, tensocket; assert 'tensocket_cpu' not in sys.modules; tensocket.default_generator; "
               "assert 'tensocket_cpu' in sys.modules")
    subprocess.run([sys.executable, "-c", program], check=True)


def test_named_results_are_made_of_a_sequence():
    values, indices = torch.ones(2), torch.zeros(2)
    for made in (torch.return_types.max((values, indices)), torch.return_types.max([values, indices]),
                 torch.return_types.max(values, indices)):
        assert type(made) is torch.return_types.max
        assert made.values is values
        assert made.indices is indices
    assert made._replace(values=indices).values is indices


def test_determinants_have_the_result_of_their_name():
    matrix = torch.tensor([[0.0, 2.0], [2.0, 0.0]])
    result = torch.slogdet(matrix)
    assert type(result) is torch.return_types.slogdet
    assert type(torch.linalg.slogdet(matrix)) is torch.return_types.linalg_slogdet
    given = torch.empty(()), torch.empty(())
    written = torch.slogdet(matrix, out=given)
    assert type(written) is torch.return_types.slogdet_out
    assert written.sign is given[0]
    assert given[0].item() == -1.0
    assert given[1].item() == pytest.approx(np.log(4.0))
