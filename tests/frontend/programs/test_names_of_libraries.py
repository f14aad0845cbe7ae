"""Names that libraries take from PyTorch's inner modules: each does what it does there, or says why it cannot."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tensocket as torch
from tensocket import _decomp, _prims_common, _tensor_str, errors
from tensocket._higher_order_ops.out_dtype import out_dtype
from tensocket._inductor import decomposition
from tensocket.distributed import _functional_collectives, rpc
from tensocket.fx.experimental import symbolic_shapes
from tensocket.profiler import profiler as profiler_module
from tensocket.sparse import _triton_ops_meta as parameters
from tensocket.utils import _triton, cpp_extension

aten = torch.ops.aten


class Marked(torch.Tensor):
    def __repr__(self):
        return "Marked()"


# ----------------------------------------------------------------------------------------------------- text of tensors


def test_parts_of_the_text_of_a_tensor():
    x = torch.tensor([[1.0, 2.5], [3.0, 4.0]])
    text = _tensor_str._tensor_str(x, 7)
    assert text == repr(x).removeprefix("tensor(").removesuffix(")")
    assert _tensor_str._tensor_str(torch.empty(0), 0) == "[]"
    assert _tensor_str._add_suffixes("f([1]", ["a=1", "b=2"], 2, force_newline=False) == "f([1], a=1, b=2)"
    assert _tensor_str._add_suffixes("f([1]", ["a=1", "b=2"], 2, force_newline=True) == "f([1],\n  a=1, b=2)"
    assert _tensor_str._str(x) == _tensor_str._str_intern(x) == repr(x)


def test_text_of_classes_with_their_own():
    x = torch.ones(2).as_subclass(Marked)
    assert _tensor_str._str_intern(x) == "Marked([1., 1.])"
    assert _tensor_str._str_intern(x, tensor_contents="...") == "Marked(...)"
    assert _tensor_str._str_intern(torch.nn.Parameter(torch.ones(1))) == "tensor([1.], requires_grad=True)"
    assert _tensor_str._str_intern(torch.eye(2).to_sparse()) == repr(torch.eye(2).to_sparse())


def test_print_options_are_those_in_force():
    x = torch.arange(10.0)
    before = _tensor_str.PRINT_OPTS.threshold
    with torch.printoptions(threshold=4):
        assert _tensor_str.PRINT_OPTS.threshold == 4
        assert " ..." in _tensor_str._tensor_str(x, 0)
    assert _tensor_str.PRINT_OPTS.threshold == before
    assert " ..." not in _tensor_str._tensor_str(x, 0)


# ------------------------------------------------------------------------------------------------ strides and operators


@pytest.mark.parametrize(("shape", "strides", "by_columns"), [
    ((2, 3, 4), (12, 4, 1), (12, 1, 3)), ((), (), ()), ((5,), (1,), (1,)), ((2, 0, 3), (3, 3, 1), (3, 1, 1))])
def test_strides_of_a_shape(shape, strides, by_columns):
    assert _prims_common.make_contiguous_strides_for(shape) == strides
    assert _prims_common.make_contiguous_strides_for(shape, row_major=False) == by_columns


def test_strides_need_sizes():
    with pytest.raises(errors.ArgumentError, match="the size -1 — sizes are at least 0 — pass a tensor's shape"):
        _prims_common.make_contiguous_strides_for((2, -1))


def test_memory_format_of_strides():
    images, volumes = torch.ones(2, 3, 4, 5), torch.ones(2, 3, 4, 5, 6)
    suggest = _prims_common.suggest_memory_format
    assert suggest(images) is suggest(torch.ones(3)) is torch.contiguous_format
    assert suggest(images.to(memory_format=torch.channels_last)) is torch.channels_last
    assert suggest(volumes.to(memory_format=torch.channels_last_3d)) is torch.channels_last_3d
    assert suggest(torch.ones(2, 1, 1, 1)) is torch.contiguous_format
    assert suggest(torch.ones(1, 3, 4, 4).expand(2, 3, 4, 4)) is torch.contiguous_format


def test_contiguity_is_known():
    assert _prims_common.is_contiguous_or_false(torch.ones(2, 3))
    assert not _prims_common.is_contiguous_or_false(torch.ones(2, 3).T)


def test_dimensions_from_the_front():
    assert _prims_common.canonicalize_dims(4, (-1, 0)) == (3, 0)
    assert _prims_common.canonicalize_dim(0, -1) == 0
    with pytest.raises(IndexError, match="dimension 4 of 4 — dimensions are from -4 to 3 — pass one of these"):
        _prims_common.canonicalize_dim(4, 4)


def test_kinds_of_dtypes():
    kinds = (_prims_common.is_float_dtype, _prims_common.is_complex_dtype, _prims_common.is_boolean_dtype,
             _prims_common.is_integer_dtype)
    for at, dtype in enumerate((torch.bfloat16, torch.complex64, torch.bool, torch.uint8)):
        assert [kind(dtype) for kind in kinds] == [k == at for k in range(4)]


def test_results_in_a_wider_dtype():
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (3, 50)), rng.integers(-128, 128, (50, 2))
    result = out_dtype(aten.mm.default, torch.int32, torch.tensor(a, dtype=torch.int8),
                       torch.tensor(b, dtype=torch.int8))
    assert result.dtype is torch.int32
    np.testing.assert_array_equal(result.numpy(), a @ b)
    with pytest.raises(errors.ArgumentError, match=r"the operator is one of linear, mm, conv2d, .* — call the "
                                                   "operator, and convert its result"):
        out_dtype(aten.add.Tensor, torch.int32, torch.ones(2), torch.ones(2))


def test_shallow_copies():
    can = torch._has_compatible_shallow_copy_type
    assert can(torch.ones(2), torch.ones(3)) is True
    assert can(torch.ones(2), torch.eye(2).to_sparse()) is False

    class Picky(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "asked" if func is can else super().__torch_function__(func, types, args, kwargs)

    assert can(torch.ones(2), torch.ones(2).as_subclass(Picky)) == "asked"


# --------------------------------------------------------------------------------------------- tables and other modules


def test_decompositions_are_stored():
    table = {}

    @_decomp.register_decomposition([aten.silu.default, aten.relu.default], table)
    def either(x):
        return x

    assert table == {aten.silu.default: either, aten.relu.default: either}
    with pytest.raises(errors.ArgumentError, match=r"type is one of post_autograd, pre_autograd, meta — pass one"):
        _decomp.register_decomposition(aten.relu.default, type="late")
    decomposition.register_decomposition([aten.mish.default])(either)
    assert decomposition.select_decomp_table()[aten.mish.default] is either
    _decomp.remove_decompositions(decomposition.decompositions, [aten.mish.default])
    assert aten.mish.default not in decomposition.decompositions
    _decomp.register_decomposition(aten.mish.default)(either)
    assert _decomp.get_decompositions([aten.mish.default, aten.tanh.default]) == {aten.mish.default: either}
    _decomp.remove_decompositions(_decomp.decomposition_table, [aten.mish.default])


def test_launch_parameters_are_those_that_were_stored():
    version = (0, torch.float16, 0.5)
    assert parameters.get_meta("bsr_dense_addmm", (1, 2), "a card", version) is None
    parameters.update("bsr_dense_addmm", "a card", version, (1, 2), (4, 1, 3, 8))
    assert parameters.get_meta("bsr_dense_addmm", (1, 2), "a card", version) == {
        "GROUP_SIZE_ROW": 4, "SPLIT_N": 1, "num_stages": 3, "num_warps": 8}
    with pytest.warns(UserWarning, match="skipping empty value for bsr_dense_addmm"):
        parameters.update("bsr_dense_addmm", "a card", version, (9, 9), None)
    assert parameters.get_meta("bsr_dense_addmm", (9, 9), "a card", version) is None
    with pytest.raises(errors.UnsupportedOperator, match=r"Triton's kernels do not run on this package's tensors — "
                                                         r"multiply the sparse tensor with @, whose kernels need no"):
        parameters.minimize(len, {}, {}, len)


def test_triton_compiles_nothing_here():
    assert _triton.has_triton() is _triton.has_triton_tma_device() is False
    assert torch._C._cpu._is_amx_tile_supported() is torch._C._cpu._is_vnni_supported() is False
    assert torch._C.Tag is torch.Tag


@pytest.mark.parametrize("call", [
    torch.sparse.to_sparse_semi_structured, torch.sparse.SparseSemiStructuredTensor.from_dense,
    lambda x: torch.sparse.SparseSemiStructuredTensorCUTLASS(x)])
def test_two_of_four_elements_have_no_kernels(call):
    with pytest.raises(errors.UnsupportedOperator, match=r"no backend has kernels for matrices with two of four "
                                                         r"elements — keep the dense tensor, or use to_sparse_csr\(\)"):
        call(torch.ones(32, 64))


def test_processes_do_not_call_each_other():
    assert rpc.is_available() is False
    for call in (lambda: rpc.init_rpc("worker"), lambda: rpc.rpc_sync("worker", len), rpc.shutdown,
                 lambda: rpc.rpc_async("worker", len), lambda: rpc.remote("worker", len)):
        with pytest.raises(errors.UnsupportedOperator, match=r"a program is one process — call the function, or "
                                                             r"exchange data through multiprocessing.Queue"):
            call()


def test_collectives_as_operators():
    x = torch.arange(3.0)
    named, former = torch.ops._c10d_functional, torch.ops.c10d_functional
    for result in (named.all_reduce.default(x, "sum", "group"), named.all_gather_into_tensor(x, 1, "group"),
                   former.all_reduce.default(x, "sum", "", [0], 1), named.broadcast.default(x, 0, "group")):
        assert result.tolist() == [0, 1, 2]
        assert result.data_ptr() != x.data_ptr()
    assert named.wait_tensor.default(x).data_ptr() == x.data_ptr()
    output = torch.zeros(3)
    outputs, work = torch.ops.c10d.scatter_.default([output], [[x]], None, 0)
    assert (outputs[0].tolist(), output.tolist(), work) == ([0, 1, 2], [0, 1, 2], None)
    assert not isinstance(_functional_collectives.all_reduce(x, "sum", None),
                          _functional_collectives.AsyncCollectiveTensor)


def test_states_of_objects():
    class Slotted:
        __slots__ = ("__dict__", "a")

    made = torch._utils._set_obj_state(Slotted(), ({"b": 2}, {"a": 1}))
    assert (made.a, made.b) == (1, 2)
    assert torch._utils._set_obj_state(Slotted(), {"b": 3}).b == 3
    assert vars(torch._utils._set_obj_state(Slotted(), None)) == {}
    with pytest.raises(errors.ArgumentError, match="a tuple of 3 — a state is a dict, or a pair of dicts — the"):
        torch._utils._set_obj_state(Slotted(), (1, 2, 3))


def test_names_of_products():
    x = torch.tensor([[1, 2]], dtype=torch.int8)
    assert torch._int_mm(x, x.t()).tolist() == [[5]]
    assert torch.nn.functional.grouped_mm is torch._grouped_mm
    assert torch.nn.functional.ScalingType.RowWise.value == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch._scaled_mm(torch.ones(1, 2), torch.ones(2, 1), torch.tensor(2.0), torch.tensor(3.0)).item() == 12


# --------------------------------------------------------------------------------------------- functions of functions


def test_branches_and_loops():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for pred, factor in ((True, 3), (torch.tensor(False), 5)):
        result = torch.cond(pred, lambda a: a * 3, lambda a: a * 5, (x,))
        assert result.tolist() == [factor, 2 * factor]
        assert torch.autograd.grad(result.sum(), x)[0].tolist() == [factor, factor]
    step, power = torch.while_loop(lambda k, y: k < 5, lambda k, y: (k + 1, y * 2), (torch.tensor(0), torch.ones(2)))
    assert (step.item(), power.tolist()) == (5, [32, 32])
    assert torch.while_loop(lambda k: k < 3, lambda k: k + 1, (0,)) == (3,)
    with pytest.raises(errors.ArgumentError, match=r"1 values of a step that took 2 — every step returns the values of "
                                                   r"the next one — return as many as there were"):
        torch.while_loop(lambda a, b: True, lambda a, b: (a,), (1, 2))


def test_sizes_have_answers():
    assert symbolic_shapes.guard_or_false(torch.ones(2).shape[0] == 2) is True
    assert symbolic_shapes.statically_known_true(1 > 2) is False
    assert symbolic_shapes.free_symbols([1, torch.ones(2)]) == symbolic_shapes.free_unbacked_symbols(3) == set()
    assert not symbolic_shapes.has_free_symbols((2, 3))
    assert not isinstance(2.0, (torch.SymFloat, torch.SymBool))


@pytest.mark.parametrize(("call", "text"), [
    (torch.ao.quantization.prepare, "[ao.quantization.prepare] a call — there are no quantized tensors, which a "
     "converted model has — keep the model in floats, or round its weights with torchao's quantize_"),
    (torch.xpu.get_device_name, "[xpu.get_device_name] a call — no backend has devices that PyTorch calls xpu — ask "
     "xpu.is_available() first, or run the program with --device opencl, whose devices it then calls cuda"),
    (cpp_extension.load, "[utils.cpp_extension.load] a call — operators in C++ are compiled for PyTorch's own library "
     "— define them with tensocket.library.custom_op, or use the library's operators in Python")])
def test_names_without_a_meaning_say_why(call, text):
    for given in ((), (1, 2)):
        with pytest.raises(errors.UnsupportedOperator) as caught:
            call(*given, name=3)
        assert str(caught.value) == text
    subclass = type("Derived", (call,), {})
    with pytest.raises(errors.UnsupportedOperator):
        subclass()
    assert not isinstance(3, call)


def test_devices_of_other_makers_have_nothing():
    assert torch.xpu.memory_allocated() == torch.xpu.max_memory_allocated() == torch.mps.recommended_max_memory() == 0
    assert torch.xpu.is_bf16_supported() is torch.backends.mps.is_macos_or_newer(14, 0) is False
    assert torch.xpu.reset_peak_memory_stats() is None


def test_names_by_a_second_path():
    assert torch._tensor._rebuild_from_type_v2 is torch._utils._rebuild_from_type_v2
    assert profiler_module.profile is torch.profiler.profile
    assert torch._inductor.cudagraph_mark_step_begin() is None
    assert torch.nn.init._no_grad_uniform_(torch.empty(3), 2, 2).tolist() == [2, 2, 2]
    assert torch.nn.init._no_grad_fill_(torch.empty(2), 4).tolist() == [4, 4]
    assert torch.sym_sum([1, 2, 3]) == 6
    current = torch.accelerator.current_accelerator()
    assert torch._C._get_accelerator() == (torch.device("cpu") if current is None else current)
