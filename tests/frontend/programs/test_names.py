"""Old names, small functions, storages of one dtype, functions of Python numbers."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import tensocket as torch
from tensocket import _utils, errors, functional, mps, storage, types, xpu


def test_range_has_its_end():
    with pytest.warns(UserWarning, match="range is deprecated"):
        x = torch.range(1, 2, 0.5)
    assert x.tolist() == [1, 1.5, 2]
    assert x.dtype == torch.float32
    with pytest.warns(UserWarning, match="range is deprecated"):
        assert torch.range(0, 3, dtype=torch.int64).tolist() == [0, 1, 2, 3]
    with pytest.warns(UserWarning, match="deprecated"), pytest.raises(
            ValueError, match="the step leads from start to end"):
        torch.range(3, 1)
    x = torch.zeros(2, 3)
    with pytest.warns(UserWarning, match="range is deprecated"):
        torch.range(0, 3, out=x[:, 1:])
    assert x.tolist() == [[0, 0, 1], [0, 2, 3]]
    with pytest.warns(UserWarning, match="range is deprecated"):
        assert torch.range(1, 3, out=torch.empty(0, dtype=torch.int32)).tolist() == [1, 2, 3]


def test_norms_under_old_names():
    x = torch.tensor([[3.0, 0.0], [4.0, 0.0]])
    assert torch.frobenius_norm(x).item() == pytest.approx(5)
    assert torch.nuclear_norm(x).item() == pytest.approx(5)
    assert torch.norm_except_dim(x, 2, 0).tolist() == [[3], [4]]
    assert torch.norm_except_dim(x, 2, -1).item() == pytest.approx(5)
    assert torch.norm_except_dim(torch.tensor([-2.0, 3.0]), 2, 0).tolist() == [2, 3]


def test_products_of_sparse_matrices():
    x = torch.sparse.FloatTensor(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0]), torch.Size([2, 2]))
    assert isinstance(x, torch.sparse.FloatTensor)
    assert not isinstance(x, torch.sparse.LongTensor)
    for product in (torch.spmm, torch.dsmm):
        assert product(x, torch.eye(2)).tolist() == [[0, 1], [2, 0]]
    assert torch.smm(x, torch.eye(2)).to_dense().tolist() == [[0, 1], [2, 0]]
    assert torch.sparse.FloatTensor(2, 3).to_dense().tolist() == [[0, 0, 0], [0, 0, 0]]


def test_settings_are_kept():
    torch.set_num_interop_threads(2)
    assert torch.get_num_interop_threads() == 2
    torch.set_warn_always(True)
    assert torch.is_warn_always_enabled()
    torch.set_warn_always(False)
    assert torch.set_flush_denormal(True) is False
    with pytest.raises(errors.ArgumentError, match="there is at least one thread beside others"):
        torch.set_num_interop_threads(0)


def test_questions_and_sizes():
    assert torch.compiled_with_cxx11_abi()
    assert not torch.is_vulkan_available()
    assert not torch.is_distributed(torch.ones(1))
    assert (torch.sym_int(2.0), torch.sym_float(2), torch.sym_max(1, 2), torch.sym_min(1, 2)) == (2, 2.0, 2, 1)
    assert torch.sym_not(False)
    assert torch.sym_ite(True, 1, 2) == 1
    for module in (mps, xpu):
        assert not module.is_available()
        assert module.device_count() == 0
        assert module.manual_seed(1) is module.seed() is module.empty_cache() is module.synchronize() is None
    assert mps.current_allocated_memory() == 0
    assert functional.einsum("i->", torch.ones(3)).item() == 3
    assert types.Device is not None


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_of_one_dtype():
    assert torch.ByteTensor(torch.ByteStorage.from_buffer(pickle.dumps([1]))).numpy().tobytes() == pickle.dumps([1])
    assert torch.ShortStorage.from_buffer(b"\x01\x00\x00\x02", "big").tolist() == [256, 2]
    assert torch.FloatStorage(3).size() == 3
    made = torch.IntStorage([1, 2])
    assert made.tolist() == [1, 2]
    assert isinstance(made, storage.IntStorage)
    assert not isinstance(made, torch.LongStorage)
    with pytest.raises(errors.ArgumentError, match="the order of bytes is 'native', 'little' or 'big'"):
        torch.ByteStorage.from_buffer(b"", "middle")
    with pytest.raises(errors.ArgumentError, match=r"'dtype' and 'device' can only be specified "
                                                    r"in TypedStorage\.from_buffer"):
        torch.ByteStorage.from_buffer(b"", dtype=torch.int8)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_wrong_uses_of_storages_of_one_dtype():
    kept = torch.IntStorage([1, 2])
    assert kept.type() == "tensocket.IntStorage"
    assert torch.ones(1).storage_type() is torch.FloatStorage
    assert torch.IntStorage(wrap_storage=kept.untyped()).tolist() == [1, 2]
    for build, words in ((lambda: torch.IntStorage(device="cpu"), "Keyword argument 'device' cannot be specified"),
                         (lambda: torch.IntStorage(dtype=torch.int8), "Keyword argument 'dtype' cannot be specified"),
                         (lambda: storage._LegacyStorage(), "Only child classes of _LegacyStorage can be "
                                                                       "instantiated"),
                         (lambda: torch.cuda.IntStorage(wrap_storage=kept.untyped()),
                          "Device of 'wrap_storage' must be cuda"),
                         (lambda: torch.cuda.IntStorage.from_buffer(b""), "Not available for CUDA storage"),
                         (lambda: torch.TypedStorage.from_file("x"), "from_file can only be called on "
                                                                     "derived classes"),
                         (lambda: torch.TypedStorage.from_buffer(b"", device="meta"), "buffers are copied to "
                                                                                           "the host")):
        with pytest.raises(errors.ArgumentError, match=words):
            build()


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_of_files(tmp_path):
    kept = torch.FloatStorage.from_file(tmp_path / "values", True, 3)
    kept.fill_(2.5)
    assert np.fromfile(tmp_path / "values", np.float32).tolist() == [2.5] * 3
    assert kept.filename == str(tmp_path / "values")
    assert torch.FloatTensor(kept).data_ptr() == kept.data_ptr()
    assert torch.FloatTensor(kept).untyped_storage().filename == kept.filename
    assert torch.ones(1).untyped_storage().filename is None


def test_every_use_of_typed_storages_can_warn():
    try:
        storage._set_always_warn_typed_storage_removal(True)
        for use in (lambda: torch.FloatStorage(), lambda: torch.FloatStorage.dtype, lambda: torch.ones(1).storage()):
            with pytest.warns(UserWarning, match="^TypedStorage is deprecated") as found:
                use()
            assert len(found) == 1
    finally:
        storage._set_always_warn_typed_storage_removal(False)


@pytest.mark.filterwarnings("ignore:set_default_tensor_type is deprecated")
def test_tensors_as_they_were_made_before_there_were_dtypes():
    assert torch.Tensor(2, 3).shape == (2, 3)
    assert torch.Tensor([1, 2]).tolist() == [1, 2]
    assert torch.LongTensor([1, 2]).dtype == torch.int64
    assert torch.FloatTensor(2, 2).shape == (2, 2)
    assert torch.autograd.Variable(torch.ones(1), requires_grad=True).requires_grad
    torch.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert torch.ones(1).dtype == torch.float64
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)


def test_functions_of_python_numbers():
    x = torch.tensor([[0.0, 1.0], [4.0, 9.0]])
    assert x.apply_(math.sqrt) is x
    assert x.tolist() == [[0, 1], [2, 3]]
    assert x.map_(torch.tensor([1.0, 2.0]), lambda a, b: a * b).tolist() == [[0, 2], [2, 6]]
    with pytest.raises(RuntimeError, match="functions of Python numbers have no gradient"):
        x.map2_(x, torch.ones(2, 2, requires_grad=True), lambda a, b, c: a)
    assert x.map2_(x, torch.ones(2, 2), lambda a, b, c: a - b + c).tolist() == [[1, 1], [1, 1]]
    assert torch.tensor([1, 2]).apply_(lambda a: a + 1).tolist() == [2, 3]
    with pytest.raises(errors.AutogradError, match="functions of Python numbers have no gradient"):
        torch.ones(1, requires_grad=True).apply_(abs)


def test_filled_diagonals():
    assert torch.zeros(2, 3).fill_diagonal_(1).tolist() == [[1, 0, 0], [0, 1, 0]]
    wrapped = torch.zeros(7, 3).fill_diagonal_(2, wrap=True)
    assert wrapped.nonzero().tolist() == [[0, 0], [1, 1], [2, 2], [4, 0], [5, 1], [6, 2]]
    assert torch.zeros(7, 3).fill_diagonal_(2).count_nonzero().item() == 3
    assert torch.zeros(3, 3, 3).fill_diagonal_(1).nonzero().tolist() == [[0] * 3, [1] * 3, [2] * 3]
    x = torch.ones(2, 2, requires_grad=True)
    (x * 2).fill_diagonal_(5).sum().backward()
    assert x.grad.tolist() == [[0, 2], [2, 0]]
    with pytest.raises(errors.ShapeError, match="a diagonal has at least 2 dimensions"):
        torch.zeros(3).fill_diagonal_(1)
    with pytest.raises(errors.ShapeError, match="more than 2 dimensions have equal sizes"):
        torch.zeros(2, 3, 3).fill_diagonal_(1)


def test_lists_of_tensors_in_one():
    parts = [torch.ones(2, 2), torch.zeros(3)]
    flat = _utils._flatten_dense_tensors(parts)
    assert flat.tolist() == [1, 1, 1, 1, 0, 0, 0]
    assert [part.shape for part in _utils._unflatten_dense_tensors(flat, parts)] == [(2, 2), (3,)]


def test_the_configuration_names_backends():
    assert "  - cpu: " in torch.__config__.show()
    assert "get_num_threads" in torch.__config__.parallel_info()


def test_inner_modules_that_programs_import():
    from tensocket import _VF, _jit_internal, _tensor
    from tensocket.autograd.function import InplaceFunction
    from tensocket.cuda import profiler
    from tensocket.distributed.elastic.multiprocessing.errors import record
    from tensocket.nn import _reduction

    assert _tensor.Tensor is torch.Tensor
    assert _VF.relu(torch.tensor([-1.0])).item() == 0
    chosen = _jit_internal.boolean_dispatch("second", 1, False, lambda x, second: "yes", lambda x, second=False: "no",
                                            "here", "chosen")
    assert (chosen(1), chosen(1, True), chosen(1, second=True), chosen.__name__) == ("no", "yes", "yes", "chosen")
    assert _jit_internal._overload(len) is record(len) is len
    assert InplaceFunction is torch.autograd.Function
    assert [_reduction.get_enum(name) for name in ("none", "mean", "sum")] == [0, 1, 2]
    assert _reduction.legacy_get_enum(False, None) == 2
    assert _reduction.legacy_get_string(None, False) == "none"
    with pytest.raises(errors.ArgumentError, match="a reduction is 'none', 'mean' or 'sum'"):
        _reduction.get_enum("all")
    with profiler.profile():
        assert profiler.start() is profiler.stop() is None


def test_futures():
    from tensocket.futures import collect_all, wait_all

    first, second = torch.Future(), torch.Future()
    together, after = collect_all([first, second]), first.then(lambda future: future.value() + 1)
    seen = []
    first.add_done_callback(lambda future: seen.append(future.wait()))
    assert not first.done()
    first.set_result(1)
    second.set_result(2)
    assert (wait_all([first, second, after]), seen) == ([1, 2, 2], [1])
    assert [future.wait() for future in together.wait()] == [1, 2]
    assert collect_all([]).wait() == []
    broken = torch.Future()
    broken.set_exception(KeyError("k"))
    with pytest.raises(KeyError):
        broken.wait()
    with pytest.raises(errors.CallbackError):
        broken.then(lambda future: future.wait()).wait()


def test_names_that_other_modules_pass_on():
    from tensocket.utils import checkpoint

    assert checkpoint.tree_map(lambda leaf: leaf + 1, {"a": (1, 2)}) == {"a": (2, 3)}


@pytest.mark.parametrize("name", ["eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_removed_functions_say_what_replaced_them(name):
    with pytest.raises(RuntimeError, match="this function was deprecated and is now removed"):
        getattr(torch, name)(torch.eye(2))


def test_norms_under_old_names_write_to_out():
    out = torch.empty(0)
    assert torch.nuclear_norm(torch.eye(3), keepdim=True, out=out) is out
    assert out.tolist() == [[pytest.approx(3)]]
    assert torch.frobenius_norm(torch.ones(4), out=out.resize_(0)).item() == pytest.approx(2)


def test_results_with_names():
    result = torch.tensor([[1.0, 3.0], [5.0, 2.0]]).sort(1)
    assert type(result) is torch.return_types.sort
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is type(result)
    assert again.indices.tolist() == [[0, 1], [1, 0]]


def test_kinds_of_tensors_have_no_subclasses():
    with pytest.raises(TypeError, match="this type is not an acceptable base type"):
        class Own(torch.FloatTensor):
            pass
