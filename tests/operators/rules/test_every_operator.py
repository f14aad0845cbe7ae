"""Every operator under every transform: the cases of the gradient tests, as batches, tangents, nested and traced."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.transforms import batching
from tensocket_operators.transforms import functionalize, grad, jvp, trace, vmap


def load(path: Path) -> Any:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(f"transforms_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FOLDER = Path(__file__).parents[1]
cases, tools = load(FOLDER / "derivatives" / "test_gradients.py"), load(FOLDER / "differences.py")
ALL = [(name, k, True) for name, k in cases.FLAT] + [(name, k, False) for name, k in cases.FLAT_COMPOSED]
#: Tangents are exact derivatives; differences of steps of 1e-5 are right to about 1e-10 of the scale of third ones.
NEAR = {"rtol": 1e-6, "atol": 1e-7}


def case(name: str, k: int, record: bool) -> tuple[Callable[..., Any], list[Any]]:
    """The function of its float arguments alone, and these."""
    if record:
        function, args = tools.record_function(name), cases.RECORDS[name][k]
    else:
        function, *args = cases.COMPOSED[name][k]
    return lambda *tensors: joined(function(*tools.placed(args, iter(tensors)))), tools.leaves(args)


def joined(result: Any) -> Any:
    """Return one tensor, also of several results."""
    return torch.cat([part.reshape(-1) for part in result]) if isinstance(result, tuple) else result


def values(tensor: Any) -> np.ndarray:
    return np.array(tensor.detach().tolist())


def batch(arrays: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Three examples: the arguments, and slightly larger ones."""
    return [[a * (1 + 0.02 * step) for a in arrays] for step in range(3)]


def subsets(name: str, count: int) -> list[Any]:
    """Return the sets of batched arguments: all, and each alone; a modified argument is in every set."""
    if count == 1 or name.endswith("_"):
        return [range(count)] if count == 1 else [range(count), [0]]
    return [range(count), *([j] for j in range(count))]


@pytest.fixture(autouse=True)
def both_devices() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(("name", "k", "record"), ALL)
def test_batches_are_stacked_examples(name: str, k: int, record: bool) -> None:
    function, arrays = case(name, k, record)
    examples = batch(arrays)
    if name.endswith("_") and len(arrays) > 1:
        # The modified argument must not be one tensor for all examples.
        with pytest.raises(torch.errors.TransformError, match="that all examples of vmap share"):
            vmap(function, in_dims=(None, *(0,) * (len(arrays) - 1)))(
                torch.tensor(arrays[0]), *[torch.tensor(np.stack([a, a])) for a in arrays[1:]])
    for chosen in subsets(name, len(arrays)):
        rows = [[example[j] if j in chosen else arrays[j] for j in range(len(arrays))] for example in examples]
        expected = np.stack([values(function(*tools.tensors_of(row, False))) for row in rows])
        given = [torch.tensor(np.stack([row[j] for row in rows]) if j in chosen else arrays[j])
                 for j in range(len(arrays))]
        dims = tuple(0 if j in chosen else None for j in range(len(arrays)))
        result = vmap(function, in_dims=dims, randomness="same")(*given)
        np.testing.assert_allclose(values(result), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("name", "k", "record"), ALL)
def test_tangents_are_central_differences(name: str, k: int, record: bool) -> None:
    function, arrays = case(name, k, record)
    directions = [np.cos(np.arange(a.size) + 1.0).reshape(a.shape) for a in arrays]
    result, tangent = jvp(function, tuple(tools.tensors_of(arrays, False)), tuple(tools.tensors_of(directions, False)))
    ends = [values(function(*tools.tensors_of([a + sign * 1e-5 * d for a, d in zip(arrays, directions, strict=True)],
                                              False))) for sign in (1, -1)]
    assert tuple(tangent.shape) == tuple(result.shape)
    np.testing.assert_allclose(values(result), values(function(*tools.tensors_of(arrays, False))), rtol=1e-12)
    np.testing.assert_allclose(values(tangent), (ends[0] - ends[1]) / 2e-5, **NEAR)


@pytest.mark.parametrize(("name", "k", "record"), ALL)
def test_gradients_of_a_batch_are_those_of_its_examples(name: str, k: int, record: bool) -> None:
    function, arrays = case(name, k, record)
    numbers = tuple(range(len(arrays)))
    rows = batch(arrays)
    given = [torch.tensor(np.stack([row[j] for row in rows])) for j in numbers]
    gradients = vmap(grad(lambda *x: tools.weighted(function(*x)), argnums=numbers), randomness="same")(*given)
    for at, row in enumerate(rows):
        inputs = tools.tensors_of(row, True)
        expected = torch.autograd.grad(tools.weighted(function(*inputs)), inputs, materialize_grads=True)
        for gradient, right in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(values(gradient[at]), values(right), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("name", "k", "record"), ALL)
def test_functionalized_and_traced_functions_compute_the_same(name: str, k: int, record: bool) -> None:
    function, arrays = case(name, k, record)
    inputs = tools.tensors_of(arrays, False)
    expected = values(function(*inputs))
    np.testing.assert_allclose(values(functionalize(function)(*inputs)), expected, rtol=1e-12)
    graph = trace(functionalize(function))(*inputs)
    assert all(not p.mutated for entry in graph for p in entry.operator.schema.parameters)
    np.testing.assert_allclose(values(graph.replay(*inputs)), expected, rtol=1e-12)


def test_every_kind_of_record_has_a_rule_for_batches() -> None:
    """Only the listed records fall back to one call per example; operators of libraries (``ns::name``) may."""
    looped = {name for name, operator in OPERATORS.items()
              if "::" not in name and name not in batching.RULES and batching.rule_of(operator).__name__ == "loop"}
    assert looped == {"max_pool2d_with_indices_backward", "bin_counts", "grid_points"}
