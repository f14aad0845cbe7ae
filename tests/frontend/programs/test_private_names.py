"""Names without documentation that libraries take from PyTorch: each does what it does there."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
import zipfile

import numpy as np
import pytest

import tensocket as torch
from tensocket import errors, nn

# ------------------------------------------------------------------------------------------------------------- checks


def test_checks_pass_or_raise_their_error():
    torch._check(True)
    torch._check_is_size(3)
    torch._check_tensor_all(torch.tensor([True, True]))
    torch._assert_async(torch.tensor(1))
    for check, error in ((torch._check, RuntimeError), (torch._check_index, IndexError),
                         (torch._check_value, ValueError), (torch._check_type, TypeError),
                         (torch._check_not_implemented, NotImplementedError)):
        with pytest.raises(error, match="why 3"):
            check(False, lambda: "why 3")
        with pytest.raises(error, match="Expected cond to be True"):
            check(False)
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value"):
        torch._assert_async(torch.tensor(0))
    with pytest.raises(RuntimeError):
        torch._check_is_size(5, max=4)
    with pytest.raises(RuntimeError):
        torch._check_tensor_all(torch.tensor([True, False]))


@pytest.mark.parametrize(("call", "text"), [
    (lambda: torch._check(1), "a int — cond must be a bool"),
    (lambda: torch._check(False, "text"), "a message of type str — message must be a callable"),
    (lambda: torch._check_tensor_all(torch.ones(2)), "cond must be a tensor with dtype torch.bool"),
])
def test_checks_refuse_other_arguments(call, text):
    with pytest.raises(errors.ArgumentTypeError, match=text):
        call()


# ------------------------------------------------------------------------------------------------ functions of tensors


def test_rows_of_sparse_matrices():
    rows = torch.tensor([0, 0, 2, 3, 3, 3])
    starts = torch._convert_indices_from_coo_to_csr(rows, 5)
    assert starts.tolist() == [0, 2, 2, 3, 6, 6]
    assert torch._convert_indices_from_coo_to_csr(rows, 5, out_int32=True).dtype == torch.int32
    columns = torch.arange(6)
    back = torch._convert_indices_from_csr_to_coo(starts, columns)
    assert back.tolist() == [rows.tolist(), columns.tolist()]
    swapped = torch._convert_indices_from_csr_to_coo(starts, columns, out_int32=True, transpose=True)
    assert (swapped.dtype, swapped.tolist()) == (torch.int32, [columns.tolist(), rows.tolist()])


def test_sizes_and_gradients_as_tensors():
    assert torch._shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3]
    x = torch.randn(3, 4, dtype=torch.float64)
    y, g = x.softmax(1), torch.randn(3, 4, dtype=torch.float64)
    jacobian = np.stack([np.diag(row) - np.outer(row, row) for row in y.numpy()])
    np.testing.assert_allclose(torch._softmax_backward_data(g, y, 1, torch.float64).numpy(),
                               np.einsum("bij,bj->bi", jacobian, g.numpy()), rtol=1e-12)


def test_normal_numbers_of_a_dtype():
    drawn = torch.distributions.utils._standard_normal((2000,), torch.float64, "cpu")
    assert drawn.dtype == torch.float64
    assert abs(drawn.mean().item()) < 0.1
    assert abs(drawn.std().item() - 1) < 0.1


# ------------------------------------------------------------------------------------------------------------ dtypes


@pytest.mark.parametrize("name", ["qint8", "quint8", "qint32", "quint4x2", "uint4", "int2", "float8_e8m0fnu"])
def test_reserved_dtypes_are_names_without_tensors(name):
    kind = getattr(torch, name)
    assert isinstance(kind, torch.dtype)
    assert kind is pickle.loads(pickle.dumps(kind)) is copy.deepcopy(kind)
    assert kind != torch.int8
    with pytest.raises(errors.UnsupportedDtype, match=f"{name} on cpu — the device does not support this dtype"):
        torch.zeros(2, dtype=kind)
    with pytest.raises(errors.UnsupportedDtype):
        torch.ones(2).to(kind)
    with pytest.raises(errors.UnsupportedDtype, match=f"dtype {name} — no backend has elements of this type"):
        kind.bit  # noqa: B018


# ---------------------------------------------------------------------------------------------------------- libraries


def test_libraries_in_cpp_are_refused():
    with pytest.raises(OSError, match=r"^\[ops.load_library\] /no/such.so — operators in C\+\+ are compiled"):
        torch.ops.load_library("/no/such.so")
    assert not torch.ops.loaded_libraries


def test_the_package_has_itself_as_an_attribute():
    assert torch.torch is torch
    assert torch.torch.Tensor is torch.Tensor


def test_operators_by_overload():
    aten = torch.ops.aten
    assert aten._pin_memory.default(torch.ones(2)).tolist() == [1, 1]
    assert aten.index.Tensor(torch.arange(4.0), [torch.tensor([1, 3])]).tolist() == [1, 3]
    for name in ("_pin_memory", "is_pinned", "index", "_int_mm", "_grouped_mm", "_scaled_mm", "add", "zeros"):
        packet = getattr(aten, name)
        assert packet.__name__ == packet.default.name == name
        assert packet.default._schema.name == packet._qualified_op_name == f"aten::{name}"
        assert packet.default.overloadpacket is packet
        assert name in dir(aten)
        with pytest.raises(AttributeError, match=f"of 'aten.{name}' has no overload name 'nosuch'"):
            packet.nosuch  # noqa: B018


# ----------------------------------------------------------------------------------------------------- torch._C


def test_tensors_of_transforms_are_told_apart():
    of = torch._C._functorch
    seen = []

    def look(x):
        seen.append((of.is_batchedtensor(x), of.is_gradtrackingtensor(x), of.is_functorch_wrapped_tensor(x),
                     of.maybe_get_bdim(x), of.maybe_get_level(x)))
        return of.get_unwrapped(x).shape if of.is_functorch_wrapped_tensor(x) else x.shape, x.sum()

    assert torch.vmap(lambda x: look(x)[1])(torch.ones(2, 3)).tolist() == [3, 3]
    torch.func.grad(lambda x: look(x)[1])(torch.ones(3))
    look(torch.ones(3))
    assert seen == [(True, False, True, 0, 1), (False, True, True, -1, 1), (False, False, False, -1, None)]
    assert not of.is_legacy_batchedtensor(torch.ones(1))
    rule = "No wrappers present: only tensors of a running transform wrap others"
    with pytest.raises(errors.TransformError, match=rule):
        of.get_unwrapped(torch.ones(1))


def test_batch_dimensions_are_added_and_removed():
    from tensocket._functorch.vmap import _get_name, _maybe_remove_batch_dim

    of, whole = torch._C._functorch, torch.arange(6.0).view(3, 2)

    def inside(x):
        inner = of._add_batch_dim(whole, 1, 1)
        assert inner.shape == (3,)
        again = of._remove_batch_dim(inner * 2, 1, 2, 1)
        assert again.equal(whole * 2)
        assert of._remove_batch_dim(torch.ones(4), 1, 2, 1).shape == (4, 2)
        assert _maybe_remove_batch_dim("f", 3, 1, 2, None) == 3
        with pytest.raises(errors.ArgumentError, match="vmap must only return Tensors"):
            _maybe_remove_batch_dim("f", 3, 1, 2, 0)
        with pytest.raises(errors.ArgumentError, match="can not return a BatchedTensor when out_dim is None"):
            _maybe_remove_batch_dim("f", inner, 1, 2, None)
        return x

    torch.vmap(inside)(torch.ones(2))
    assert _get_name(inside) == "inside"
    with pytest.raises(errors.TransformError, match="level 7 — a batch has the level of a running vmap"):
        of._add_batch_dim(whole, 0, 7)


def test_keys_of_dispatch():
    keys = torch._C.DispatchKey
    chosen = torch._C.DispatchKeySet(keys.AutocastCPU) | torch._C.DispatchKeySet(keys.AutogradCPU)
    assert chosen.has(keys.AutocastCPU)
    assert not chosen.remove(keys.AutocastCPU).has(keys.AutocastCPU)
    assert chosen - torch._C.DispatchKeySet(keys.AutogradCPU) == torch._C.DispatchKeySet(keys.AutocastCPU)
    assert len({chosen, chosen.add(keys.AutocastCPU)}) == 1
    assert set(chosen & torch._C.DispatchKeySet(keys.AutogradCPU)) == {keys.AutogradCPU}
    x = torch.ones(4, 4, requires_grad=True)
    with torch.autocast("cpu"):
        assert (x @ x).dtype == torch.bfloat16
        with torch._C._ExcludeDispatchKeyGuard(chosen):
            product = x @ x
        assert (product.dtype, product.requires_grad) == (torch.float32, False)
        assert (x @ x).dtype == torch.bfloat16
    rule = "Autocast, Autograd and Python are layers that a block can leave out"
    with pytest.raises(errors.UnsupportedOperator, match=rule):
        torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(keys.BackendSelect))


def test_flags_of_the_native_module():
    torch._C._log_api_usage_once("event")
    assert torch._C._get_tracing_state() is None
    assert torch._C._get_default_device() == "cpu"
    assert torch._C._TensorMeta is type(torch.Tensor)
    assert not torch._C._is_torch_function_mode_enabled()
    assert not torch._C._are_functorch_transforms_active()
    assert torch.vmap(lambda x: x + torch._C._are_functorch_transforms_active())(torch.zeros(2)).tolist() == [1, 1]
    x = torch.ones(3)
    assert torch._C._is_alias_of(x, x[1:])
    assert not torch._C._is_alias_of(x, x.clone())
    assert torch._C._nn._parse_to("cpu", torch.int8, True) == ("cpu", torch.int8, True, None)
    with pytest.raises(AttributeError, match="has no attribute 'never'"):
        torch._C.never  # noqa: B018


# ---------------------------------------------------------------------------------------------------- devices


def test_modules_and_indices_of_devices():
    from tensocket import _utils

    assert _utils._get_device_module("cpu") is torch.cpu
    assert _utils._get_device_index(3) == 3
    assert _utils._get_device_index("cpu", allow_cpu=True) == -1
    assert _utils._get_device_index("cuda:2") == 2
    assert _utils._get_available_device_type() in (None, "cuda")
    index, module = _utils._get_device_index, _utils._get_device_module
    for call, name, text in (
            (index, "cpu", "Expected a non cpu device"),
            (index, "cuda", "Expected a torch.device with a specified index or an integer"),
            (module, "never", "Device 'never' does not have a corresponding module registered as 'torch.<device "
                              "type>'")):
        with pytest.raises(errors.ArgumentError, match=text):
            call(name)


def test_graphs_of_a_driver_are_refused():
    assert not torch.cuda.is_current_stream_capturing()
    for call in (torch.cuda.CUDAGraph, lambda: torch.cuda.graph(None),
                 lambda: torch.cuda.make_graphed_callables(abs, ())):
        with pytest.raises(errors.UnsupportedOperator, match="streams are not recorded — compile the function"):
            call()


def test_what_can_be_compiled():
    from tensocket._dynamo.eval_frame import is_dynamo_supported
    from tensocket._dynamo.utils import is_compile_supported, warn_once

    assert is_compile_supported("cpu")
    assert not is_compile_supported("never")
    assert is_dynamo_supported() in (True, False)
    with pytest.warns(UserWarning, match="only once 17"):
        warn_once("only once 17")
    warn_once("only once 17")  # a second warning would be an error


def test_fake_tensors_are_recognized():
    from tensocket._subclasses.fake_tensor import FakeTensorMode, is_fake

    with FakeTensorMode() as mode:
        assert is_fake(mode.from_tensor(torch.ones(2)))
    assert not is_fake(torch.ones(2))


# ------------------------------------------------------------------------------------------------------------ files


def test_records_of_a_file(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"w": torch.arange(5.0)}, path)
    reader = torch.PyTorchFileReader(str(path))
    assert reader.has_record("data.pkl")
    assert "data/0" in reader.get_all_records()
    assert reader.get_record("data/0") == np.arange(5, dtype=np.float32).tobytes()
    assert reader.get_storage_from_record("data/0", 5, torch.float32).tolist() == [0, 1, 2, 3, 4]
    assert reader.get_storage_from_record("data/0", 20, torch.UntypedStorage).dtype == torch.uint8
    with pytest.raises(errors.SerializationError, match=r"record 'never'.* — the archive has the record"):
        reader.get_record("never")
    with pytest.raises(errors.SerializationError, match="6 elements of record 'data/0' — it has 20 bytes"):
        reader.get_storage_from_record("data/0", 6, torch.float32)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(errors.SerializationError, match=r"the file is an archive that save\(\) wrote"):
        torch.PyTorchFileReader(str(tmp_path / "other.zip"))


# ------------------------------------------------------------------------------------------------ classes of the API


def test_type_hints_of_modules_are_known():
    assert typing.get_type_hints(nn.Module)["training"] is bool
    assert typing.get_type_hints(nn.Linear)["training"] is bool


def test_a_device_is_a_value_but_no_dataclass():
    device = torch.device("cpu")
    assert not dataclasses.is_dataclass(device)
    assert device == torch.device("cpu") != torch.device("cpu:0")
    assert device != "cpu"
    assert hash(device) == hash(torch.device("cpu"))
    for change in (lambda: setattr(device, "type", "cuda"), lambda: setattr(device, "new", 1),
                   lambda: delattr(device, "index")):
        with pytest.raises(AttributeError, match="a device is a value that does not change"):
            change()
    assert copy.deepcopy(device) == pickle.loads(pickle.dumps(device)) == device
