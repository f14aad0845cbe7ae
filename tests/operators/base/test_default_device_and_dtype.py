"""The default device and dtype: set, for a block, per thread, from the environment."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

import tensocket_operators as tc
from tensocket_plugins.contract.devices import SELECTION, Device, Selection
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, UnknownDevice


def place(**options: Any) -> str:
    return str(tc.ones(1, **options).device)


# ----------------------------------------------------------------------------------------------------------- devices


def test_the_device_of_factories() -> None:
    assert place() == "ref:0"
    tc.set_default_device("meta")
    made = (tc.empty(1), tc.zeros(1), tc.full((1,), 2), tc.arange(3), tc.linspace(0, 1, 3), tc.eye(2), tc.tensor([1]),
            tc.as_tensor([1.0]), tc.asarray(1), tc.rand(2), tc.randn(2), tc.randint(0, 3, (2,)), tc.randperm(3))
    assert {str(x.device) for x in made} == {"meta"}
    assert place(device="ref") == "ref:0"
    assert str(tc.ones_like(tc.ones(1, device="ref")).device) == "ref:0"
    assert str(tc.get_default_device()) == "meta"
    tc.set_default_device(tc.device("ref", 1))
    assert place() == "ref:1"


def test_a_device_is_a_context() -> None:
    with tc.device("meta") as entered:
        assert (entered, place()) == (tc.device("meta"), "meta")
        with tc.device("ref:1"):
            assert place() == "ref:1"
            with tc.device("ref:1"):
                assert place() == "ref:1"
        assert place() == "meta"
    assert place() == "ref:0"


def test_one_device_object_nests_in_itself() -> None:
    device = tc.device("ref:1")
    with device, tc.device("meta"), device:
        assert place() == "ref:1"
    assert place() == "ref:0"


def test_errors_leave_the_default_as_it_was() -> None:
    with pytest.raises(KeyError), tc.device("meta"):
        raise KeyError
    assert place() == "ref:0"
    with pytest.raises(UnknownDevice), tc.device("nowhere"):
        pass
    assert place() == "ref:0"


def test_the_default_is_the_thread_s_own() -> None:
    seen: list[str] = []
    inside, checked = threading.Event(), threading.Event()

    def other() -> None:
        tc.set_default_device("ref:0")
        with tc.device("ref:1"):
            seen.append(place())
            inside.set()
            checked.wait(10)
            seen.append(place())

    with tc.device("meta"):
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(10)
        assert place() == "meta"
        checked.set()
        thread.join()
        assert place() == "meta"
    assert seen == ["ref:1", "ref:1"]


def test_without_a_runtime_a_device_is_no_context() -> None:
    message = r"\[device\] with device 'ref' — a device is selected for a runtime's factories — import tensocket first"
    with pytest.raises(ArgumentError, match=message):
        Selection().enter(Device("ref"))
    Selection().leave()
    assert type(SELECTION[0]) is not Selection


# ------------------------------------------------------------------------------------------------------------ dtypes


def test_the_dtype_of_factories_and_numbers() -> None:
    for dtype, cplx in ((tc.float64, tc.complex128), (tc.float16, tc.complex32), (tc.float32, tc.complex64)):
        tc.set_default_dtype(dtype)
        assert tc.get_default_dtype() is dtype
        for made in (tc.empty(1), tc.zeros(1), tc.tensor([1.5]), tc.full((1,), 2.5), tc.linspace(0, 1, 3), tc.rand(2)):
            assert made.dtype is dtype
        one = tc.tensor([1])
        for made in (one / 2, one * 2.5, tc.functions.exp(one), tc.functions.sqrt(one)):
            assert made.dtype is dtype
        assert tc.result_type(one, 1j) is cplx


def test_a_block_with_another_dtype() -> None:
    with tc.default_dtype(tc.float64):
        assert tc.ones(1).dtype is tc.float64
        with tc.default_dtype(tc.bfloat16):
            assert tc.ones(1).dtype is tc.bfloat16
        assert tc.ones(1).dtype is tc.float64
    with pytest.raises(KeyError), tc.default_dtype(tc.float64):
        raise KeyError
    assert tc.ones(1).dtype is tc.float32


@pytest.mark.parametrize("dtype", [tc.int32, tc.bool_, tc.complex64, tc.float8_e5m2, "float32", None])
def test_dtypes_that_are_no_default(dtype: Any) -> None:
    for change in (tc.set_default_dtype, lambda dtype: tc.default_dtype(dtype).__enter__()):
        with pytest.raises(ArgumentTypeError, match=r"\[set_default_dtype\] .* — the default dtype is a float"):
            change(dtype)
    assert tc.get_default_dtype() is tc.float32


# ------------------------------------------------------------------------------------------------------- environment


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True,
                          text=True, timeout=60, check=False)


def test_defaults_from_the_environment() -> None:
    code = "import tensocket_operators as tc; x = tc.ones(2); print(x.device, x.dtype, tc.get_default_device())"
    done = run(code, TENSOCKET_DEVICE="ref:1", TENSOCKET_DEFAULT_DTYPE="float64")
    assert done.stdout.split() == ["ref:1", "tensocket.float64", "ref:1"], done.stderr
    assert run(code, TENSOCKET_DEVICE="ref", TENSOCKET_DEFAULT_DTYPE="").stdout.split()[1] == "tensocket.float32"


@pytest.mark.parametrize("name", ["int32", "nothing", "float8_e5m2"])
def test_a_wrong_dtype_in_the_environment(name: str) -> None:
    done = run("import tensocket_core", TENSOCKET_DEFAULT_DTYPE=name)
    assert done.returncode == 1
    assert f"[TENSOCKET_DEFAULT_DTYPE] the value '{name}' — the default dtype is a floating-point dtype" in done.stderr
