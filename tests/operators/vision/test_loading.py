"""``ops.load_library``: libraries in C++ for whose operators there are own ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_operators import namespaces
from tensocket_operators.library import Library, register_autograd, register_fake
from tensocket_operators.vision import register
from tensocket_plugins.contract.errors import AutogradError, LibraryError, UnsupportedOperator


@pytest.fixture
def ops(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An object ``ops`` of a process that has loaded nothing."""
    if "torchvision::nms" in OPERATORS:
        pytest.skip("the operators are in use")
    monkeypatch.setattr(namespaces, "_LOADED", {})
    yield namespaces.Namespaces()
    for library in namespaces._LOADED.values():
        library._destroy()


def library_file(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).touch()
    return folder / name


@pytest.mark.parametrize("name", ["_C.so", "_C.cpython-311-x86_64-linux-gnu.so", "_C.pyd"])
def test_a_known_library_defines_operators(ops: Any, tmp_path: Path, name: str) -> None:
    file = library_file(tmp_path / "torchvision", name)
    for path in (str(file), file):
        assert ops.load_library(path) is None
    assert ops.loaded_libraries == {str(file.resolve())}
    assert ops.torchvision._cuda_version() == -1
    assert "nms" in dir(ops.torchvision)


@pytest.mark.parametrize(("folder", "name"),
                         [("torchvision", "image.so"), ("other", "_C.so"), ("torchvision", "_Cx.so")])
def test_other_libraries_are_refused(ops: Any, tmp_path: Path, folder: str, name: str) -> None:
    with pytest.raises(LibraryError, match=r"operators in C\+\+ are compiled for PyTorch's own library — define"):
        ops.load_library(str(library_file(tmp_path / folder, name)))
    assert ops.loaded_libraries == set()


def test_a_library_is_a_file(ops: Any, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"_C\.so — a library is a file that exists — check the path"):
        ops.load_library(str(tmp_path / "torchvision" / "_C.so"))


@pytest.fixture
def registered() -> Iterator[Any]:
    if "torchvision::nms" in OPERATORS:
        pytest.skip("the operators are in use")
    library = register()
    yield namespaces.ops.torchvision
    library._destroy()


def test_schemas(registered: Any) -> None:
    assert registered.nms.default.schema.text == (
        "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    assert registered._ps_roi_align_backward.default.schema.text == (
        "torchvision::_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
        "SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch_size, SymInt channels, "
        "SymInt height, SymInt width) -> Tensor")
    assert registered._roi_pool_backward.default.schema.text == (
        "torchvision::_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, "
        "SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) "
        "-> Tensor")


def test_the_library_registers_shapes_gradients_and_kernels_of_its_own(registered: Any) -> None:
    """As torchvision's Python part does at its import."""
    library = Library("torchvision", "IMPL", "Meta")
    library.impl(registered.roi_pool.default, lambda x, rois, *rest: (
        x.new_empty((rois.shape[0], x.shape[1], *rest[1:])), x.new_empty((1,))))
    register_fake("torchvision::nms", lambda dets, scores, iou: dets.new_empty((3,), dtype=torch.int64), lib=library)
    register_autograd("torchvision::roi_align", lambda ctx, grad: (grad.sum() * ctx.one, *(None,) * 6), lib=library,
                      setup_context=lambda ctx, inputs, output: setattr(ctx, "one", torch.ones((1, 1, 4, 4))))
    meta = torch.zeros((2, 4), device="meta")
    assert registered.nms(meta, meta[:, 0], 0.5).shape == (3,)
    assert registered.roi_pool(torch.zeros((1, 3, 4, 4), device="meta"), torch.zeros((2, 5), device="meta"), 1.0, 3, 2)[
        0].shape == (2, 3, 3, 2)
    x = torch.ones((1, 1, 4, 4), requires_grad=True)
    registered.roi_align(x, torch.tensor([[0.0, 0.0, 0.0, 3.0, 3.0]]), 1.0, 2, 2, 2, True).sum().backward()
    assert x.grad.eq(4).all()
    library._destroy()


def test_gradients_of_gradients_and_quantized_tensors_are_refused(registered: Any) -> None:
    x = torch.ones((1, 1, 4, 4), requires_grad=True)
    result = registered.roi_align(x, torch.tensor([[0.0, 0.0, 0.0, 3.0, 3.0]]), 1.0, 2, 2, 2, True)
    (first,) = torch.autograd.grad(result.square().sum(), x, create_graph=True)
    with pytest.raises(AutogradError, match=r"a result of torchvision::_roi_align_backward — it has no auto"):
        first.sum().backward()
    with pytest.raises(UnsupportedOperator, match=r"\[torchvision::qnms\] a call on ref — no kernel is registered"):
        registered.qnms(torch.zeros((1, 4)), torch.zeros((1,)), 0.5)
