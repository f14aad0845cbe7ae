"""Automatic precision: what operators compute in, how it nests, gradients, and what it leaves alone."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest

import tensocket as torch
from tensocket import Tensor, library, nn
from tensocket.nn import functional as F
from tensocket.utils._python_dispatch import TorchDispatchMode
from tensocket_core.dispatch.autocast import PRECISION
from tensocket_core.dispatch.modes import ACTIVE, STATE
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_operators.autocast_lists import ACCELERATOR, HOST
from tensocket_operators.library.libraries import remove_operator

X = torch.rand(4, 4) + 0.1
LOW = X.bfloat16()
F32, B16, F16, F64 = torch.float32, torch.bfloat16, torch.float16, torch.float64

#: The dtypes of PyTorch 2.13's results on the CPU for float32, bfloat16 and float64.
HOST_CASES = {
    "matmul": (lambda v: v @ v, B16, B16, F64),
    "mm": (lambda v: torch.mm(v, v), B16, B16, F64),
    "linear": (lambda v: F.linear(v, v), B16, B16, F64),
    "einsum": (lambda v: torch.einsum("ij,jk->ik", v, v), B16, B16, F64),
    "tensordot": (lambda v: torch.tensordot(v, v, 1), B16, B16, F64),
    "baddbmm": (lambda v: torch.baddbmm(v[None], v[None], v[None]), B16, B16, F64),
    "conv1d": (lambda v: F.conv1d(v[None], v[:, :, None]), B16, B16, F64),
    "conv_tbc": (lambda v: torch.conv_tbc(v[None], v[None], v[0]), B16, B16, F64),
    "attention": (lambda v: F.scaled_dot_product_attention(v[None], v[None], v[None]), B16, B16, F64),
    "mv": (lambda v: torch.mv(v, v[0]), F32, B16, F64),
    "softmax": (lambda v: v.softmax(0), F32, B16, F64),
    "sum": (lambda v: v.sum(), F32, B16, F64),
    "layer_norm": (lambda v: F.layer_norm(v, (4,)), F32, B16, F64),
    "gelu": (F.gelu, F32, B16, F64),
    "prod": (lambda v: v.prod(), F32, F32, F64),
    "cdist": (lambda v: torch.cdist(v, v), F32, F32, F64),
    "mse_loss": (lambda v: F.mse_loss(v, v), F32, F32, F64),
    "cross_entropy": (lambda v: F.cross_entropy(v, torch.zeros(4).long()), F32, F32, F64),
    "quantile": (lambda v: v.quantile(0.5), F32, F32, F64),
    "cat": (lambda v: torch.cat([v, LOW]), F32, B16, F64),
    "stack": (lambda v: torch.stack([v, v]), F32, B16, F64),
}
#: The dtypes that PyTorch documents for CUDA, for float32, float16 and float64.
DEVICE_CASES = {
    "matmul": (lambda v: v @ v, F16, F16, F64),
    "addmv": (lambda v: torch.addmv(v[0], v, v[0]), F16, F16, F64),
    "softmax": (lambda v: v.softmax(0), F32, F32, F64),
    "sum": (lambda v: v.sum(), F32, F32, F64),
    "cumsum": (lambda v: v.cumsum(0), F32, F32, F64),
    "exp": (lambda v: v.exp(), F32, F32, F64),
    "pow": (lambda v: v ** 2, F32, F32, F64),
    "layer_norm": (lambda v: F.layer_norm(v, (4,)), F32, F32, F64),
    "mse_loss": (lambda v: F.mse_loss(v, v), F32, F32, F64),
    "relu": (lambda v: v.relu(), F32, F16, F64),
    "add": (lambda v: v + v, F32, F16, F64),
    "atan2": (lambda v: torch.atan2(v, v.to(torch.promote_types(v.dtype, F32))), F32, F32, F64),
}


@pytest.fixture(autouse=True)
def _nothing_stays_on() -> None:
    yield
    assert not PRECISION.enabled
    assert not PRECISION.depth
    assert not PRECISION.converted
    assert PRECISION.caching
    assert not STATE.include


@pytest.mark.parametrize("name", HOST_CASES)
def test_precisions_on_the_host(name: str) -> None:
    function, *expected = HOST_CASES[name]
    with torch.autocast("cpu"):
        assert [function(v).dtype for v in (X, LOW, X.double())] == expected


@pytest.mark.parametrize("name", DEVICE_CASES)
def test_precisions_on_other_devices(name: str) -> None:
    function, *expected = DEVICE_CASES[name]
    v = X.to("ref")
    with torch.autocast("ref"):
        assert [function(w).dtype for w in (v, v.half(), v.double())] == expected


def test_rules_name_operators() -> None:
    assert {*HOST, *ACCELERATOR} <= {*OPERATORS, *COMPOSITES}


def test_binary_cross_entropy_is_refused_on_other_devices() -> None:
    p = torch.full((2,), 0.5, device="ref")
    with torch.autocast("ref"), pytest.raises(RuntimeError, match="its logarithms leave the range of a low precision"):
        F.binary_cross_entropy(p, p)
    with torch.autocast("cpu"):
        assert F.binary_cross_entropy(p.cpu().bfloat16(), p.cpu().bfloat16()).item() == pytest.approx(np.log(2), 1e-6)


def test_values_are_those_of_the_low_precision() -> None:
    with torch.autocast("cpu", dtype=F16):
        product = X @ X
    exact = X.numpy().astype(np.float16).astype(np.float64)
    np.testing.assert_allclose(product.float().numpy(), exact @ exact, rtol=2e-3)


def test_other_values_stay_as_they_are() -> None:
    counts = torch.ones(2, 2, dtype=torch.int64)
    with torch.autocast("cpu"):
        assert (counts @ counts).dtype == torch.int64
        assert (X + 1j).matmul(X + 1j).dtype == torch.complex64
        other = X.to("ref")
        assert (other @ other).dtype == F32


def test_nesting_and_switching_off() -> None:
    with torch.autocast("cpu"):
        with torch.autocast("cpu", enabled=False):
            assert (X @ X).dtype == F32
            assert not torch.is_autocast_enabled("cpu")
        with torch.autocast("cpu", dtype=F16):
            assert (X @ X).dtype == F16
            assert torch.get_autocast_dtype("cpu") is F16
        assert (X @ X).dtype == B16
        assert torch.is_autocast_enabled("cpu")
        with torch.autocast("ref"):
            assert (X @ X).dtype == B16
            assert (X.to("ref") @ X.to("ref")).dtype == F16
    assert (X @ X).dtype == F32
    assert not torch.is_autocast_enabled("cpu")


def test_one_context_is_entered_again() -> None:
    mode = torch.autocast("cpu")
    with mode, mode:
        assert (X @ X).dtype == B16
    assert (X @ X).dtype == F32


def test_decorator() -> None:
    @torch.autocast("cpu")
    def product(v: Tensor) -> Tensor:
        """Squares."""
        return v @ v

    assert product(X).dtype == B16
    assert product.__doc__ == "Squares."
    assert (X @ X).dtype == F32


def test_an_error_leaves_the_block() -> None:
    with pytest.raises(RuntimeError), torch.autocast("cpu"):
        torch.mm(X, X[:2])
    assert (X @ X).dtype == F32


def test_threads_have_modes_of_their_own() -> None:
    seen: list[torch.dtype] = []
    with torch.autocast("cpu"):
        worker = threading.Thread(target=lambda: seen.append((X @ X).dtype))
        worker.start()
        worker.join()
    assert seen == [F32]


def test_nothing_is_active_afterwards() -> None:
    before = len(ACTIVE)
    with torch.autocast("cpu"):
        assert len(ACTIVE) == before + 1
    assert len(ACTIVE) == before


# --------------------------------------------------------------------------------------------------------- gradients


def test_gradients_have_the_dtype_of_parameters() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.autocast("cpu"):
        loss = F.mse_loss(model(X), torch.zeros(4, 2))
    loss.backward()
    grads = [p.grad.clone() for p in model.parameters()]
    assert {g.dtype for g in grads} == {F32}
    model.zero_grad()
    F.mse_loss(model(X), torch.zeros(4, 2)).backward()
    for low, exact in zip(grads, model.parameters(), strict=True):
        assert (low - exact.grad).norm() <= 0.03 * exact.grad.norm()


def test_parameters_are_converted_once_per_block() -> None:
    layer, seen = nn.Linear(4, 4), []

    class Conversions(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.extend(a for a in args if func.name == "convert" and a is layer.weight)
            return func(*args, **(kwargs or {}))

    for caching, count in ((True, 1), (False, 2)):
        seen.clear()
        with torch.autocast("cpu", cache_enabled=caching):
            (layer(X) + layer(X)).sum().backward()
            kept = len(PRECISION.converted)
        assert kept == (2 if caching else 0)
        with Conversions(), torch.autocast("cpu", cache_enabled=caching):
            layer(X), layer(X)
        assert len(seen) == count


def test_a_kept_conversion_follows_its_parameter() -> None:
    weight = nn.Parameter(torch.ones(2, 2))
    with torch.autocast("cpu"):
        first = weight @ torch.ones(2, 2)
        with torch.no_grad():
            assert not (weight @ torch.ones(2, 2)).requires_grad
            weight.mul_(2)
        assert (weight @ torch.ones(2, 2)).tolist() == [[4.0, 4.0], [4.0, 4.0]]
        assert first.requires_grad
        torch.clear_autocast_cache()
        assert not PRECISION.converted


def test_transforms_convert_outside_of_their_levels() -> None:
    from tensocket.func import grad, vmap

    with torch.autocast("cpu"):
        assert vmap(lambda row: row @ X)(X).dtype == B16
        slope = grad(lambda v: (v @ X).sum())(X)
    assert slope.dtype == F32
    np.testing.assert_allclose(slope.numpy(), np.tile(X.numpy().sum(1), (4, 1)), rtol=2e-2)


class _Twice(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(a, b)
        return a.mm(b)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        a, b = ctx.saved_tensors
        _Twice.seen = grad.mm(b.t()).dtype
        return grad.mm(b.t()), a.t().mm(grad)


class _Wide(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, a, options):  # type: ignore[no-untyped-def]
        _Wide.seen = a.dtype, options["b"].dtype, torch.is_autocast_enabled("cpu")
        return a.mm(a)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad, None


def test_custom_functions() -> None:
    a, b = X.clone().requires_grad_(), X.clone().requires_grad_()
    with torch.autocast("cpu"):
        result = _Twice.apply(a, b)
        wide = _Wide.apply(LOW, {"b": LOW})
    assert result.dtype == B16
    assert wide.dtype == F32
    result.sum().backward()
    assert _Twice.seen == B16
    assert a.grad.dtype == F32
    assert _Wide.seen == (F32, F32, False)
    _Wide.apply(LOW, {"b": LOW})
    assert _Wide.seen == (B16, B16, False)


def test_custom_operators() -> None:
    @library.custom_op("amp_tests::product", mutates_args=())
    def product(x: Tensor, y: Tensor) -> Tensor:
        return x @ y

    try:
        with torch.autocast("cpu"):
            # Without a rule of its own, it is seen through.
            assert product(X, X).dtype == B16
            product.register_autocast("cpu", F16)
            assert product(X, LOW).dtype == F16
        assert product(X, X).dtype == F32
    finally:
        remove_operator(product.operator)


def test_rules_go_with_their_library() -> None:
    lib = library.Library("amp_tests", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    library.register_autocast("amp_tests::twice", "cpu", F16, lib=lib)
    twice = torch.ops.amp_tests.twice
    with torch.autocast("cpu"):
        assert twice(X).dtype == F16
    lib._destroy()
    assert "amp_tests::twice" not in OPERATORS


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_compute_again_in_the_same_precision(reentrant: bool) -> None:
    from tensocket.utils.checkpoint import checkpoint

    layer, seen = nn.Linear(4, 4), []

    def run(x: Tensor) -> Tensor:
        y = layer(x)
        seen.append(y.dtype)
        return y.relu().square()

    x = X.clone().requires_grad_()
    with torch.autocast("cpu"):
        plain = run(x).float().sum()
        result = checkpoint(run, x, use_reentrant=reentrant).float().sum()
    expected = torch.autograd.grad(plain, (x, layer.weight))
    result.backward()
    assert seen == [B16] * 3
    np.testing.assert_allclose(x.grad.numpy(), expected[0].numpy(), rtol=1e-6)
    np.testing.assert_allclose(layer.weight.grad.numpy(), expected[1].numpy(), rtol=1e-6)


# ------------------------------------------------------------------------------------------------------------- state


def test_state_functions() -> None:
    assert torch.get_autocast_dtype("cpu") is B16
    assert torch.get_autocast_dtype("cuda") is F16
    assert torch.get_autocast_gpu_dtype() is F16
    assert torch.get_autocast_cpu_dtype() is B16
    assert not torch.is_autocast_enabled()
    assert not torch.is_autocast_cpu_enabled()
    torch.set_autocast_enabled("cpu", True)
    assert (X @ X).dtype == B16
    torch.set_autocast_dtype("cpu", F16)
    assert (X @ X).dtype == F16
    torch.set_autocast_cpu_dtype(B16)
    torch.set_autocast_cpu_enabled(False)
    assert (X @ X).dtype == F32
    torch.set_autocast_enabled(True)
    assert torch.is_autocast_enabled()
    torch.set_autocast_gpu_dtype(F16)
    torch.set_autocast_enabled(False)
    assert torch.autocast_increment_nesting() == 1
    assert torch.autocast_decrement_nesting() == 0
    torch.set_autocast_cache_enabled(False)
    assert not torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(True)
    PRECISION.chosen.clear()


def test_what_cannot_be_switched_on() -> None:
    assert torch.amp.is_autocast_available("cuda")
    assert not torch.amp.is_autocast_available("meta")
    with pytest.raises(ValueError, match="a device type is a string"):
        torch.autocast(3)
    with pytest.raises(RuntimeError, match="the device type is that of a backend"):
        torch.autocast("meta")
    with pytest.raises(TypeError, match="it is switched on or off"):
        torch.set_autocast_enabled("cpu")
    with pytest.warns(UserWarning, match="low precisions are bfloat16 and float16"), torch.autocast("cpu", dtype=F32):
        assert (X @ X).dtype == F32


def _warned(make, *args, **named):  # type: ignore[no-untyped-def]
    with pytest.warns(FutureWarning, match=r"`torch.cuda.amp.\w+\(args...\)` is deprecated"):
        return make(*args, **named)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_missing_devices_switch_off() -> None:
    for make in (lambda: torch.autocast("cuda"), lambda: _warned(torch.cuda.amp.autocast)):
        with pytest.warns(UserWarning, match="no device of type 'cuda'"), make():
            assert (X @ X).dtype == F32
    assert torch.cuda.amp.common.amp_definitely_not_available()


def test_older_names() -> None:
    with pytest.warns(FutureWarning, match="is deprecated"), torch.cpu.amp.autocast():
        assert (X @ X).dtype == B16

    class Old(torch.autograd.Function):
        @staticmethod
        @_warned(torch.cuda.amp.custom_fwd, cast_inputs=torch.float16)
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x * 2

        @staticmethod
        @partial(_warned, torch.cuda.amp.custom_bwd)
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    Old.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(("mode", "rank", "dtype"), [
    ("reflect", 1, torch.float32), ("reflect", 2, torch.float32), ("reflect", 3, torch.bfloat16),
    ("replicate", 2, torch.float32), ("replicate", 3, torch.float32), ("circular", 2, torch.bfloat16),
    ("constant", 2, torch.bfloat16)])
def test_borders_of_elements_are_float32_on_the_host(mode, rank, dtype):
    x = torch.ones((1, 1, *(4,) * rank), dtype=torch.bfloat16)
    with torch.autocast("cpu"):
        assert torch.nn.functional.pad(x, (1, 1) * rank, mode=mode).dtype is dtype
    assert torch.nn.functional.pad(x, (1, 1) * rank, mode=mode).dtype is torch.bfloat16
