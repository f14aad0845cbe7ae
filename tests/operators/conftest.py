"""Tests of the operators run on the interpreter device ``ref``.

Those with the fixture ``device`` also run on a device that has nothing but the primitives, and on the CPU backend where
that is installed.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_plugins.contract.descriptor import Descriptor
from tensocket_plugins.contract.errors import UnsupportedDtype
from tensocket_plugins.contract.hooks import hookimpl
from tensocket_plugins.contract.primitives import PRIMITIVES
from tensocket_plugins.contract.registry import registry
from tensocket_plugins.ir.target import Target
from tensocket_plugins.kit import ref
from tensocket_plugins.kit.host_operators import HOST_OPERATORS, SEQUENCE_OPERATORS
from tensocket_plugins.kit.host_primitives import compute, host_view

PLAIN = "plain"
INSTALLED = {entry.name for entry in entry_points(group="tensocket.backends")}
DEVICES = ["ref", PLAIN, *(["cpu"] if "cpu" in INSTALLED else [])]
#: Dtypes that primitives do not know.
NOT_PRIMITIVE = {"bfloat16", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"}
#: Relative errors that are rounding, by dtype.
RTOL = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 4e-6, "float64": 1e-12}


def run_primitive(name: str, outs: Any, ins: Any, scalars: Any, stream: Any) -> None:
    compute(
        name, *[host_view(x, x.storage.buffer) for x in outs], [host_view(x, x.storage.buffer) for x in ins], scalars
    )


def plain_backend(
    name: str, without: frozenset[str] = frozenset(), without_features: frozenset[str] = frozenset(),
    target: Target | None = None,
) -> ModuleType:
    """A backend with the memory of ``ref`` and the primitives except ``without``.

    It has no code generator, or one for a target, whose scheduled programs are interpreted.
    """
    profile = dataclasses.replace(
        ref.PROFILE, dtypes=ref.PROFILE.dtypes - NOT_PRIMITIVE, features=ref.PROFILE.features - without_features,
        host_kernels=HOST_OPERATORS | SEQUENCE_OPERATORS,
    )

    class PlainDevice(ref.RefDevice):
        def __init__(self, index: int, memory: int) -> None:
            super().__init__(index, memory)
            self.name, self.profile, self.target = f"{name}:{index}", profile, target
            for primitive in PRIMITIVES.keys() - without:
                self.kernels.register(primitive, partial(run_primitive, primitive))

    class PlainBackend(ref.RefBackend):
        def open(self, index: int) -> PlainDevice:
            return PlainDevice(index, self.memory)

    module = ModuleType(name)
    module.tensocket_describe = hookimpl(
        lambda: Descriptor(name, ((1, 0), (2, 0)), profile), specname="tensocket_describe"
    )
    module.tensocket_backend = hookimpl(lambda: PlainBackend(), specname="tensocket_backend")
    return module


@pytest.fixture(scope="session")
def nn_families() -> tuple[set[str], set[str]]:
    """Differentiable records and composites of the modules that ``derivatives/test_gradients_of_nn.py`` is about."""
    modules = {f"tensocket_operators.{name}" for name in (
        "nn.attention.attention", "nn.normalization.batch_norm", "nn.losses.classification", "nn.losses.ctc",
        "linalg.distances", "nn.dropout.dropout", "nn.embedding.embeddings", "nn.losses.losses", "nn.losses.margins",
        "nn.normalization.normalization", "nn.normalization.row_norms", "nn.normalization.grouped_norms",
        "nn.recurrent.recurrent", "nn.recurrent.recurrent_layers", "nn.losses.cross_entropy")}
    records = {name for name, item in OPERATORS.items()
               if item.derivative is not None and getattr(getattr(item, "formula", None), "__module__", "") in modules}
    return records, {name for name, item in COMPOSITES.items() if item.body.__module__ in modules}


@pytest.fixture(scope="session")
def make_plain() -> Callable[..., ModuleType]:
    return plain_backend


@pytest.fixture(scope="session", autouse=True)
def plain_device() -> Iterator[None]:
    registry().add(plain_backend(PLAIN), name=PLAIN, distribution="the tests of the operators")
    yield
    registry().remove(PLAIN)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["ref", "cpu"])
def place(request: pytest.FixtureRequest) -> str:
    """The interpreter device, which runs kernels, and the host itself: the name of the default device."""
    if request.param == "cpu":
        pytest.importorskip("tensocket_cpu")
    tc.set_default_device(request.param)
    return str(request.param)


@pytest.fixture(autouse=True)
def defaults(request: pytest.FixtureRequest) -> Iterator[None]:
    """The default device of a test, and the process as it was before."""
    tc.set_default_device(request.getfixturevalue("device") if "device" in request.fixturenames else "ref")
    yield
    tc.set_default_device(None)
    tc.set_fallback(None)
    tc.set_default_dtype(tc.float32)
    assert tc.is_grad_enabled()


@pytest.fixture
def host() -> Callable[[Any], np.ndarray]:
    """A tensor's values in NumPy; floats as float64."""

    def read(tensor: Any) -> np.ndarray:
        values = np.array(tensor.detach()._values())
        assert values.shape == tuple(tensor.shape)
        return values.astype(np.float64) if values.dtype.kind == "f" else values

    return read


@pytest.fixture
def supports(device: str) -> Callable[[str], bool]:
    """Whether the test's device has a dtype; one that it lacks is refused."""

    def check(name: str) -> bool:
        if name in tc.profile(device).dtypes:
            return True
        with pytest.raises(UnsupportedDtype, match=rf"\[tensor\] {name} on {device}"):
            tc.tensor([1.0], dtype=BY_NAME[name])
        return False

    return check


@pytest.fixture
def make() -> Callable[..., Any]:
    """``make(values, dtype name, requires_grad)``: a tensor on the default device."""

    def build(values: Any, dtype: str = "float32", requires_grad: bool = False) -> Any:
        return tc.tensor(np.asarray(values), dtype=BY_NAME[dtype], requires_grad=requires_grad)

    return build


BY_NAME = {"bool": tc.bool_} | {
    name: getattr(tc, name)
    for name in (
        "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
        "complex128", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "complex32",
    )
}


@pytest.fixture
def dtypes() -> dict[str, Any]:
    """Dtypes by name."""
    return BY_NAME


@pytest.fixture
def near(host: Callable[[Any], np.ndarray]) -> Callable[..., None]:
    """``near(tensor, reference)``: equal up to rounding of its dtype, ``scale`` times as much where sums cancel."""

    def check(tensor: Any, reference: Any, *, scale: float = 1.0, dtype: str | None = None) -> None:
        name = tensor.dtype.name
        assert dtype is None or name == dtype
        actual, expected = host(tensor), np.asarray(reference)
        assert actual.shape == expected.shape
        if name not in RTOL:
            np.testing.assert_array_equal(actual, expected)
            return
        bound = scale * RTOL[name]
        np.testing.assert_allclose(actual, expected, rtol=bound, atol=bound)

    return check


@pytest.fixture
def numbers(make: Callable[..., Any], host: Callable[[Any], np.ndarray]) -> Callable[..., Any]:
    """``numbers(dtype, low, high)``: a tensor and its values, which are exact in the dtype."""

    def draw(dtype: str, low: float = -3.0, high: float = 3.0, shape: tuple[int, ...] = (3, 5), seed: int = 0) -> Any:
        values = np.random.default_rng(seed).uniform(low, high, shape)
        if dtype == "bool":
            values = values > (low + high) / 2
        elif "int" in dtype:
            values = np.clip(np.rint(values * 3), 0 if dtype == "uint8" else -9, 9)
        tensor = make(values, dtype)
        return tensor, host(tensor)

    return draw


@pytest.fixture
def check_error() -> Callable[[Any], None]:
    """``check_error((run, class, PyTorch's class, operator, rule))``: what is raised, and that all works afterwards."""

    def check(case: Any) -> None:
        run, kind, base, operator, rule = case
        with pytest.raises(kind) as caught:
            run()
        error = caught.value
        assert type(error) is kind
        assert isinstance(error, base)
        assert (error.operator, error.rule) == (operator, rule)
        assert str(error) == f"[{operator}] {error.given} — {rule} — {error.advice}"
        assert all(part and part == part.strip() for part in (error.given, rule, error.advice))
        x = tc.tensor([1.0, 2.0], requires_grad=True)
        (x * 2).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]

    return check


# ------------------------------------------------------------------------------------------- gradients


def module_of(path: Path) -> ModuleType:
    """A file beside this one, loaded by itself."""
    spec = importlib.util.spec_from_file_location(f"beside_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def differences() -> ModuleType:
    """``differences.py``: arguments as tensors, calls of records, gradients against central differences."""
    return module_of(Path(__file__).with_name("differences.py"))


@pytest.fixture
def check(differences: ModuleType) -> Callable[[Callable[..., Any], Any], None]:
    """``check(function, arguments)``: gradients in all float64 arrays among the arguments are those of differences."""
    return differences.check_gradient


@pytest.fixture
def check_twice(differences: ModuleType) -> Callable[[Callable[..., Any], Any], None]:
    """``check_twice(function, arguments)``: the same for the gradients of gradients."""
    return differences.check_second_gradient


@pytest.fixture
def record_function(differences: ModuleType) -> Callable[[str], Callable[..., Any]]:
    """``record_function(name)``: a call of a record; one in place works on a copy."""
    return differences.record_function


@pytest.fixture(scope="session")
def gradient_tables() -> dict[str, set[str]]:
    """The names in the tables of ``derivatives/test_gradients*.py``, by the table's name."""
    merged: dict[str, set[str]] = {
        name: set() for name in ("RECORDS", "COMPOSED", "NO_GRADIENT", "ELSEWHERE", "ELSEWHERE_RECORDS")}
    for path in sorted(Path(__file__).with_name("derivatives").glob("test_gradients*.py")):
        module = module_of(path)
        for name, names in merged.items():
            names |= set(getattr(module, name, ()))
    return merged
