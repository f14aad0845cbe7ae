"""Calls that nested tensors refuse, and the messages."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tensocket as torch
import tensocket.nn.functional as F
from tensocket.nested import as_nested_tensor, masked_select, narrow, nested_tensor, nested_tensor_from_jagged
from tensocket.nested._internal.nested_tensor import NestedTensor, jagged_from_list
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    DimensionError,
    ShapeError,
    UnsupportedOperator,
)


def dense(*shape):
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def strided(*shapes, requires_grad=False):
    return nested_tensor([dense(*shape) for shape in shapes], requires_grad=requires_grad)


def jagged(*shapes):
    return nested_tensor([dense(*shape) for shape in shapes], layout=torch.jagged)


S = strided((2, 4), (3, 4))
T = strided((4, 2), (4, 3)).transpose(1, 2)
J = jagged((2, 4), (3, 4))
K = jagged((2, 4), (3, 4))
EMPTY = nested_tensor([])
LINES = strided((2,), (3,))

CONSTRUCTION = [
    (lambda: nested_tensor(4.0), ArgumentTypeError, "Only lists (List) of tensors can be made a nested tensor"),
    (lambda: nested_tensor([], layout=torch.jagged), ArgumentError,
     "Cannot create a nested tensor of layout jagged from an empty list"),
    (lambda: nested_tensor([dense(2, 3), dense(2, 4)], layout=torch.jagged), ShapeError,
     "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout only "
     "represents shapes of the form (B, *, D_0, D_1, ..., D_N), with only * allowed to be ragged."),
    (lambda: nested_tensor([dense(2, 3), dense(2)]), ShapeError,
     "All Tensors given to nested_tensor must have the same dimension. Found dimension 1 for Tensor at index 1 and "
     "dimension 2 for Tensor at index 0."),
    (lambda: nested_tensor([dense(2)], layout=torch.sparse_coo), ArgumentError,
     "Specified layout is unsupported for nested tensors: tensocket.sparse_coo"),
    (lambda: as_nested_tensor(dense(3)), ShapeError,
     "as_nested_tensor(): Expected tensor argument to have dim() > 1"),
    (lambda: as_nested_tensor([[1.0]]), ArgumentTypeError,
     "as_nested_tensor(): Expected first argument to be a tensor, or a list / tuple of tensors"),
    (lambda: as_nested_tensor(S, layout=torch.jagged), ArgumentError,
     "Converting between nested tensor layouts is not supported"),
    (lambda: nested_tensor_from_jagged(dense(4, 2)), ArgumentError,
     "nested_tensor_from_jagged(): At least one of offsets or lengths is required."),
    (lambda: nested_tensor_from_jagged(dense(4, 2), torch.tensor([0, 4]), jagged_dim=0), ArgumentError,
     "Expected jagged_dim >=1, but got 0."),
    (lambda: narrow(dense(2, 3), 1, "0", 1, layout=torch.jagged), ArgumentTypeError,
     "start must be an integer or a tensor"),
    (lambda: narrow(dense(2, 3), 1, torch.tensor([0, 1]), 1), ArgumentError,
     "start and length must be integers for the strided layout NT impl"),
    (lambda: narrow(dense(2, 3, 4), 2, 0, 1, layout=torch.jagged), ArgumentError, "jagged layout only supports dim=1"),
    (lambda: masked_select(S, S > 0), ArgumentError, "torch.nested.masked_select requires a strided tensor"),
    (lambda: masked_select(dense(2, 3), S > 0), ArgumentError, "torch.nested.masked_select requires a strided mask"),
    (lambda: torch._nested_tensor_from_mask(dense(2, 3, 4), dense(2, 3)), ShapeError,
     "Expected mask to be of ScalarType Bool"),
    (lambda: torch._nested_tensor_from_mask(dense(2, 3, 4), dense(2, 4) > 0), ShapeError,
     "Padding mask has to be 2D, the data 3D, and both have one batch size and length"),
    (lambda: torch._nested_tensor_from_mask(dense(1, 2, 4), torch.tensor([[False, True]])), ShapeError,
     "Mask must be left-aligned without gaps"),
]
BOTH = [
    (lambda: torch.nested.to_padded_tensor(dense(2, 3), 0.0), ArgumentError, "padding is for nested tensors"),
    (lambda: torch.nested.to_padded_tensor(S, 0.0, (2, 2, 4)), ShapeError,
     "Value in output_size is less than NestedTensor padded size. Truncation is not supported."),
    (lambda: torch.nested.to_padded_tensor(S, 0.0, (2, 3)), ShapeError, "the padded tensor has 3"),
    (lambda: torch.nested.to_padded_tensor(strided((1, 0), (0, 0)), 0.0), ShapeError,
     "at least one constituent tensor should have non-zero numel"),
    (lambda: torch.nested.to_padded_tensor(T, 0.0), ShapeError,
     "for now to_padded_tensor only supports contiguous nested tensor"),
    (lambda: S.cumsum(1), UnsupportedOperator, "nested tensors of layout strided do not support cumsum"),
    (lambda: J.cumsum(1), UnsupportedOperator, "nested tensors of layout jagged do not support cumsum"),
    (lambda: S[2], DimensionError, "index 2 is out of bounds for dimension 0 with size 2"),
    (lambda: S[:], UnsupportedOperator, "the batch of a nested tensor is indexed by integers"),
    (lambda: F.embedding(torch.tensor([1]), S), ArgumentError, "only the indices may be nested"),
    (lambda: S.clone().fill_(dense(1)), ShapeError, "fill_ only supports 0-dimension value tensor"),
    (lambda: S.clone().copy_(LINES), ShapeError,
     "copy_ only supports tensors that are the same size for Nested implementations"),
    (lambda: torch.empty_like(S, memory_format=torch.channels_last), UnsupportedOperator,
     "nested tensors are made in preserve_format or contiguous_format"),
    (lambda: S.clone(memory_format=torch.channels_last), UnsupportedOperator,
     "Nested tensor clone supports Preserve and Contiguous memory formats, called clone with memory format: "
     "ChannelsLast"),
    (lambda: S.unbind(1), UnsupportedOperator, "unbind(): nested tensors are taken apart along dim=0 only"),
    (lambda: int(J.size(1)), ArgumentError, "a ragged size differs from component to component"),
    (lambda: J.size(1) > 5, ArgumentError, "the order of a ragged size and another size is unknown"),
    (lambda: S.size(), UnsupportedOperator, "Internal error: NestedTensorImpl doesn't support sizes"),
    (lambda: S.stride(), UnsupportedOperator, "Internal error: NestedTensorImpl doesn't support strides"),
    (lambda: S.size(1), ArgumentError, "Given dimension 1 is irregular and does not have a size"),
    (lambda: copy.deepcopy(strided((2,), requires_grad=True) * 2), AutogradError,
     "Only Tensors created explicitly by the user support the deepcopy protocol"),
    (lambda: strided((2,), requires_grad=True).backward(), AutogradError,
     "grad can be implicitly created only for scalar outputs"),
    (lambda: strided((2,), requires_grad=True).backward(3), ArgumentTypeError, "a gradient of type int"),
    (lambda: strided((2,)).backward(strided((2,))), AutogradError, "element 0 of the tensors, which has no grad_fn"),
    (lambda: strided((2,), requires_grad=True).backward(dense(1, 3)), AutogradError,
     "a nested tensor has a nested gradient"),
    (lambda: strided((2,), requires_grad=True).backward(strided((3,))), AutogradError,
     "a gradient has the shapes of the components of its tensor"),
    (lambda: F.scaled_dot_product_attention(S, S, dense(2, 3, 4)), ArgumentError,
     "query, key and value are all nested"),
    (lambda: F.scaled_dot_product_attention(S, S, S, attn_mask=S), ArgumentError,
     "not supported when an explicit attn_mask is set for nested tensors"),
    (lambda: F.scaled_dot_product_attention(S, S, S, is_causal=True), ArgumentError,
     "not supported when is_causal=True for nested tensors of layout strided"),
    (lambda: F.scaled_dot_product_attention(LINES, LINES, LINES), ShapeError,
     "query, key and value have the same batch size and 3 or 4 dimensions"),
]
STRIDED = [
    (lambda: S.flatten(0, 1), UnsupportedOperator, "flatten(): not supported for NestedTensor on dim=0"),
    (lambda: S.unflatten(0, (1, 2)), UnsupportedOperator, "unflatten(): not supported for NestedTensor on dim=0"),
    (lambda: T.chunk(2, -1), ShapeError, "chunk expects `self` to be contiguous."),
    (lambda: S.split_with_sizes([1, 1], 1), UnsupportedOperator,
     "split_with_sizes for nested tensors is currently only supported for the last dimension."),
    (lambda: S.chunk(2, 1), UnsupportedOperator,
     "Chunk for nested tensors is currently only supported for the last dimension."),
    (lambda: S.split_with_sizes([1, 2], -1), ShapeError, "split_with_sizes expects split_sizes to sum exactly to 4"),
    (lambda: S.chunk(3, -1), UnsupportedOperator,
     "Chunk for nested tensors is only supported for nested tensors with trailing dimension divisible by chunks."),
    (lambda: S.narrow(0, 1, 2), DimensionError, "the components are within the batch"),
    (lambda: T.narrow(0, 0, 1), ShapeError, "narrow(): only contiguous nested tensors supported"),
    (lambda: S.narrow(1, 0, 1), UnsupportedOperator,
     "narrow(): only dim=0 supported for nested tensors, but got dim=1"),
    (lambda: S.view(2, 3, 3), ShapeError, "shape '[3, 3]' is invalid for input of size 8"),
    (lambda: S.view(2, -1, -1), ShapeError, "only one dimension can be inferred"),
    (lambda: S.view(-1, 2, 4), UnsupportedOperator,
     "view: For now nested view cannot change or infer the implicit batch dimension"),
    (lambda: EMPTY.view(-1), ShapeError, "empty nested tensor cannot be reshaped"),
    (lambda: S.view(()), ShapeError, "shape '[]' is invalid for a nested tensor"),
    (lambda: S.unsqueeze(0), UnsupportedOperator, "For nested tensors, unsqueezing dimension 0 is not supported"),
    (lambda: LINES.squeeze(1), UnsupportedOperator,
     "For nested tensors, squeezing a nested tensor of singleton tensors is not supported at the moment"),
    (lambda: S.squeeze(0), UnsupportedOperator,
     "For nested tensors, squeezing dimension 0 is not supported at the moment"),
    (lambda: S.squeeze(), UnsupportedOperator, "For nested tensors, squeeze without the dim argument is not supported"),
    (lambda: S.transpose(0, 1), UnsupportedOperator, "Nested tensor dimension 0 cannot be transposed"),
    (lambda: torch.tensor(2.0).mul_(S), ShapeError,
     "output with shape [] doesn't match the broadcast shape [nested]"),
    (lambda: S * dense(1), ShapeError,
     "Expected both self and other to be nested, but got a nested self and non-nested other"),
    (lambda: dense(1) * S, ShapeError,
     "Expected both self and other to be nested, but got a non-nested self and nested other"),
    (lambda: T.relu(), ShapeError, "NestedTensor must be contiguous to get buffer."),
    (lambda: S * T, ShapeError, "mul requires strides to match when given NestedTensors"),
    (lambda: S.chunk(2, -1)[0] / S.chunk(2, -1)[1], ShapeError,
     "div requires offsets to match when given NestedTensors"),
    (lambda: S * strided((2, 4), (2, 4)), ShapeError, "mul does not support broadcasting when given a NestedTensor"),
    (lambda: torch.matmul(strided((2, 4)), strided((2, 4))), ShapeError,
     "matmul(): Nested tensors cannot be matrix multiplied (last and second-last sizes differ)"),
    (lambda: torch.matmul(strided((2, 2, 4)), strided((3, 4, 2))), ShapeError,
     "matmul(): For nested tensors, batch dimensions must have the same sizes, got [2] and [3]"),
    (lambda: torch.matmul(S, strided((4, 2))), ShapeError,
     "matmul: Expected size for the 1st dimension of 2nd input tensor to be: 2 but got: 1."),
    (lambda: torch.matmul(LINES, LINES), ShapeError,
     "matmul: For nested tensors, only inputs with >= 3 dims are currently supported. 1st input has rank: 2"),
    (lambda: torch.matmul(LINES, dense(4)), ShapeError,
     "Expected both to be nested, but got a nested self and non-nested other"),
    (lambda: S.bmm(S), ShapeError, "0-th nested matrices in batch cannot be multiplied (2x4 and 2x4)"),
    (lambda: S.bmm(strided((4, 2))), ShapeError,
     "Expected size for the 1st dimension of batch2 tensor to be: 2 but got: 1."),
    (lambda: LINES.bmm(S), ShapeError, "batch1 must be a 3D tensor"),
    (lambda: F.linear(S, dense(2, 3)), ShapeError,
     "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) 'last_dim' to equal 'weight.size(1), "
     "but got: last_dim = 4, and weight.size(1) = 3"),
    (lambda: F.linear(strided((1, 2), (1, 3)), dense(2, 3)), ShapeError,
     "Expected all tensors in nested tensor to have the same trailing dimension, instead last dimension equals: "
     "[2, 3]"),
    (lambda: F.linear(T, dense(2, 4)), ShapeError, "for now linear only supports contiguous nested tensor"),
    (lambda: F.linear(LINES, dense(2, 2)), ShapeError,
     "Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: 2. Dense tensor dim: 2"),
    (lambda: F.linear(dense(2, 4), dense(2, 4), LINES), UnsupportedOperator,
     "Linear does not support nested parameters"),
    (lambda: F.linear(S, S), UnsupportedOperator,
     "Linear does not support nested weight when input is a nested tensor."),
    (lambda: F.layer_norm(S, (5,)), ShapeError, "The shape at dimension 0 of normalized_shape differs from the input"),
    (lambda: F.layer_norm(S, (2, 4)), ShapeError,
     "normalized_shape extends into irregular dimensions for the nested tensor"),
    (lambda: F.layer_norm(S, (2, 2, 4)), ShapeError,
     "normalized_shape extends into irregular dimensions for the nested tensor"),
    (lambda: F.softmax(S, 0), UnsupportedOperator, "Cannot apply softmax across nested dimension 0"),
    (lambda: S.sum(-1), UnsupportedOperator, "NestedTensor always requires keepdim=True for now."),
    (lambda: S.sum(1, keepdim=True), UnsupportedOperator,
     "NestedTensor can only be reduced across the last dimension for now"),
    (lambda: S.sum((1, 2), keepdim=True), UnsupportedOperator,
     "NestedTensor only allows reduction of a single dimension for now."),
    (lambda: torch.cat([S, strided((3, 4), (3, 4))], -1), ShapeError,
     "expected all nested tensors to have matching ragged structures outside of the concatenated dim"),
    (lambda: torch.cat([strided((2, 3), (2, 4)), strided((2, 3), (2, 4))], 1), UnsupportedOperator,
     "only nested tensors with a single ragged dim next to the batch dim are supported"),
    (lambda: torch.cat([T, T], -1), ShapeError, "only contiguous nested tensors are supported"),
    (lambda: torch.cat([S, dense(2, 3, 4)], -1), ArgumentError, "expected each tensor in given list to be nested"),
]
JAGGED = [
    (lambda: torch.cat([J, K], -1), ShapeError,
     "expected all nested tensors to have matching ragged structures outside of the concatenated dim"),
    (lambda: torch.cat([J, dense(2, 3, 4)], -1), ArgumentError, "expected each tensor in given list to be nested"),
    (lambda: J.expand(3, -1, 4), ShapeError, "expand(): the batch and the ragged dimension are not expanded"),
    (lambda: J.squeeze(), UnsupportedOperator,
     "squeeze(): For nested tensors, squeeze without the dim argument is not supported"),
    (lambda: J.view(2, -1, 5), ShapeError, f"view(): cannot view shape (2, {J.size(1)}, 4) with these sizes"),
    (lambda: J.view(3, -1, 4), ShapeError, f"view(): cannot view shape (2, {J.size(1)}, 4) as (3, -1, 4)"),
    (lambda: J.view(2, 4, 4), ShapeError, f"view(): cannot view shape (2, {J.size(1)}, 4) as (2, 4, 4)"),
    (lambda: J.permute(0, 1, 1), ShapeError, "each dimension stands once in an order"),
    (lambda: J.permute(1, 0, 2), UnsupportedOperator, "permute(): not supported for NestedTensor on dim=0"),
    (lambda: J.transpose(0, 2), UnsupportedOperator, "transpose(): not supported for NestedTensor on dim=0"),
    (lambda: J.chunk(2, 1), UnsupportedOperator, "chunk(): not supported for NestedTensor on dim=1"),
    (lambda: J * K, ShapeError, "cannot call binary pointwise function mul.Tensor with inputs of shapes "
     f"(2, {J.size(1)}, 4) and (2, {K.size(1)}, 4)"),
    (lambda: J * dense(2, 4, 4), ShapeError, "cannot call binary pointwise function mul.Tensor with inputs of shapes"),
    (lambda: J.matmul(dense(3, 4, 2)), ShapeError, "matmul(): not supported between inputs of these shapes"),
    (lambda: F.linear(J, J), UnsupportedOperator, "linear does not support nested parameters"),
    (lambda: F.layer_norm(J, (3, 4)), UnsupportedOperator,
     "layer_norm(): normalizing over ragged dim not supported for nested tensors"),
    (lambda: F.softmax(J, 0), UnsupportedOperator,
     "softmax(): not supported when reducing across the batch dimension for NestedTensor"),
    (lambda: J.sum((1, 2)), ShapeError,
     "sum(): applying over the ragged dimension, but not the batch dimension is not supported for NestedTensor"),
    (lambda: NestedTensor(dense(4, 2), torch.tensor([0, 3, 5])).unbind(), ShapeError,
     "unbind(): nested tensor offsets and lengths do not match ragged_idx dimension 1"),
    (lambda: NestedTensor(dense(4, 2), torch.tensor([0, 4]), _ragged_idx=0).unbind(), ShapeError,
     "unbind(): nested tensor ragged dimension is out of bounds of 1 to 2"),
    (lambda: jagged_from_list([], None), ArgumentError,
     "Cannot create a nested tensor of layout jagged from an empty list"),
]


@pytest.mark.parametrize(("call", "kind", "words"), [*CONSTRUCTION, *BOTH, *STRIDED, *JAGGED])
def test_words(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)
    assert str(caught.value).count(" — ") >= 2
