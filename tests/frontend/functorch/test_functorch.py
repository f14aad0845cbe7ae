"""The package ``functorch``: former names, modules as functions of their parameters by position."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import tensocket as torch
from tensocket import func, functorch, nn
from tensocket._functorch.eager_transforms import _slice_argnums
from tensocket.errors import ArgumentError, AutogradError
from tensocket.functorch import experimental
from tensocket.functorch import stateless as modules


@pytest.mark.parametrize("name", ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "functionalize", "vmap"])
def test_former_names_warn(name: str) -> None:
    with pytest.warns(FutureWarning, match=f"Please use `torch.{'' if name == 'vmap' else 'func.'}{name}` instead"):
        former = getattr(functorch, name)(lambda x: (x * x).sum())
    x = torch.tensor([1.0, 2.0])
    assert str(former(x)) == str(getattr(func, name)(lambda x: (x * x).sum())(x))


def test_former_names_of_products() -> None:
    x = torch.tensor([1.0, 2.0])
    with pytest.warns(FutureWarning, match="func.vjp"):
        assert functorch.vjp(torch.sin, x)[0].tolist() == x.sin().tolist()
    with pytest.warns(FutureWarning, match="func.jvp"):
        assert functorch.jvp(lambda x: x * x, (x,), (x,))[1].tolist() == [2.0, 8.0]
    assert functorch.__version__ == torch.__version__
    with pytest.raises(AttributeError, match="nothing"):
        functorch.nothing  # noqa: B018


class Tied(nn.Module):
    """Two names of one weight, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Any, *, scale: float = 1.0) -> Any:
        self.count += 1
        return self.second(self.first(x)) * scale


def test_functions_of_parameters() -> None:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(5, 3)
    function, params = modules.make_functional(model)
    assert function(params, x).tolist() == model(x).tolist()
    assert [p.requires_grad for p in params] == [True] * 4
    assert function(tuple(torch.zeros_like(p) for p in params), x).tolist() == [[0.0, 0.0]] * 5
    assert all(p.device.type == "meta" for p in function.stateless_model.parameters())
    gradients = func.grad(lambda params: function(params, x).sum())(params)
    expected = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    for own, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(own, other)
    _, frozen = modules.make_functional(model, disable_autograd_tracking=True)
    assert not any(p.requires_grad for p in frozen)
    assert all(p.requires_grad for p in model.parameters())


def test_tied_parameters_and_buffers() -> None:
    model, x = Tied(), torch.randn(2, 3)
    with pytest.warns(FutureWarning, match="functional_call"):
        function, params, buffers = functorch.make_functional_with_buffers(model)
    assert (function.param_names, function.buffer_names) == (("first.weight", "first.bias", "second.bias"), ("count",))
    assert function(params, buffers, x, scale=2.0).tolist() == (2 * model(x)).tolist()
    assert (buffers[0].item(), model.count.item()) == (1.0, 1.0)
    other = torch.eye(3)
    result = function((other, *params[1:]), buffers, x)
    torch.testing.assert_close(result, x + params[1] + params[2])


def test_ensembles() -> None:
    models, x = [nn.Linear(3, 2) for _ in range(4)], torch.randn(5, 3)
    with pytest.warns(FutureWarning, match="stack_module_state"):
        function, params, buffers = functorch.combine_state_for_ensemble(models)
    assert buffers == ()
    result = func.vmap(function, (0, 0, None))(params, buffers, x)
    torch.testing.assert_close(result, torch.stack([model(x) for model in models]))
    assert not any(p.requires_grad for p in params)


def test_ensembles_from_a_class() -> None:
    weights, function, names = modules.functional_init(nn.Linear, (3,))(4, 2)
    assert ([tuple(w.shape) for w in weights], names) == ([(3, 2, 4), (3, 2)], ("weight", "bias"))
    x = torch.randn(5, 4)
    result = func.vmap(function, (0, None))(weights, (x,))
    torch.testing.assert_close(result, x @ weights[0].mT + weights[1][:, None])
    weights, function, names = modules.functional_init(nn.Linear)(4, 2)
    torch.testing.assert_close(function(weights, (x,)), x @ weights[0].mT + weights[1])
    made = modules.functional_init_with_buffers(nn.BatchNorm1d, (3,))(4)
    assert [tuple(b.shape) for b in made[1]] == [(3, 4), (3, 4), (3,)]
    assert (made[3], made[4]) == (("weight", "bias"), ("running_mean", "running_var", "num_batches_tracked"))
    assert tuple(func.vmap(made[2], (0, 0, None))(*made[:2], (torch.ones(2, 4),)).shape) == (3, 2, 4)


@pytest.mark.parametrize(("run", "kind", "rule"), [
    (lambda: modules.make_functional(nn.BatchNorm1d(3)), AutogradError, "make_functional(model): `model` has buffers. "
     "Please use make_functional_with_buffers(model) instead."),
    (lambda: modules.combine_state_for_ensemble([]), AutogradError,
     "combine_state_for_ensemble: Expected at least one model, got 0."),
    (lambda: modules.combine_state_for_ensemble([nn.ReLU(), nn.ReLU().eval()]), AutogradError,
     "combine_state_for_ensemble: Expected all models to have the same training/eval mode."),
    (lambda: modules.combine_state_for_ensemble([nn.ReLU(), nn.Tanh()]), AutogradError,
     "combine_state_for_ensemble: Expected all models to be of the same class."),
    (lambda: modules.functional_init(nn.Linear, (2, 2))(1, 1), ArgumentError,
     "an ensemble has one size, which is positive"),
])
def test_what_is_refused(run: Any, kind: type[Exception], rule: str) -> None:
    with pytest.raises(kind) as caught:
        run()
    assert rule in str(caught.value)


def test_batch_norms_without_running_statistics() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2), nn.Sequential(nn.BatchNorm1d(2)))
    assert experimental.replace_all_batch_norm_modules_(model) is model
    assert list(model.buffers()) == []
    x = torch.randn(4, 3)
    torch.testing.assert_close(model.eval()(x), model.train()(x))
    assert experimental.chunk_vmap(lambda x: x * 2, chunks=3)(torch.arange(4)).tolist() == [0, 2, 4, 6]


def test_sliced_arguments() -> None:
    args = (torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0))
    assert _slice_argnums(args, 1) == (args[1],)
    assert _slice_argnums(args, -1, as_tuple=False) is args[2]
    assert _slice_argnums(args, (2, 0)) == (args[2], args[0])


def test_programs_that_import_functorch_get_this_package() -> None:
    program = ("from tensocket import as_torch; as_torch.install()\n"
               "import functorch, functorch.einops, torch\n"
               "from functorch.experimental import chunk_vmap\n"
               "import torch._functorch.vmap\n"
               "assert functorch is torch.functorch and torch._functorch.vmap.vmap is torch.vmap\n"
               "as_torch.uninstall()\n"
               "import sys; assert not any(name.partition('.')[0] == 'functorch' for name in sys.modules)\n")
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=120)


def test_the_former_place_of_vmap_warns() -> None:
    with pytest.warns(FutureWarning, match="use torch.vmap instead"):
        mapped = torch._vmap_internals.vmap(lambda x: x * 2, in_dims=1, out_dims=1)
    assert mapped(torch.arange(6).reshape(2, 3)).tolist() == [[0, 2, 4], [6, 8, 10]]
