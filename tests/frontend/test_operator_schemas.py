"""``_schema`` of operators: names, types and defaults as in PyTorch 2.13."""

from __future__ import annotations

import pytest

import tensocket as torch

aten = torch.ops.aten


def test_names_and_flags():
    schema = aten.add.Tensor._schema
    assert schema is aten.add.Tensor._schema
    assert (schema.name, schema.overload_name, schema.is_mutable) == ("aten::add", "Tensor", False)
    assert (aten.relu.default._schema.name, aten.relu.default._schema.overload_name) == ("aten::relu", "")
    assert aten.add_.Tensor._schema.is_mutable
    assert str(schema) == "aten::add.Tensor(Tensor input, Operand other) -> Tensor"
    assert isinstance(schema, torch.FunctionSchema)


@pytest.mark.parametrize(("operator", "expected"), [
    (aten.sum.dim_IntList, [("input", "Tensor", None, False, False), ("dim", "Optional[List[int]]", None, True, False),
                            ("keepdim", "bool", False, True, False),
                            ("dtype", "Optional[torch.dtype]", None, True, True)]),
    (aten.cat.default, [("tensors", "List[Tensor]", None, False, False), ("dim", "int", 0, True, False)]),
])  # fmt: skip
def test_arguments(operator, expected):
    found = [(a.name, a.type.annotation_str, a.default_value, a.has_default_value(), a.kwarg_only)
             for a in operator._schema.arguments]
    assert found == expected
    assert not any(a.is_out for a in operator._schema.arguments)


def test_kinds_of_types():
    kinds = [argument.type for argument in aten.sum.dim_IntList._schema.arguments]
    assert isinstance(kinds[0], torch.TensorType)
    assert isinstance(kinds[1], torch.OptionalType)
    assert isinstance(kinds[1].getElementType(), torch.ListType)
    assert isinstance(kinds[2], torch.BoolType)


@pytest.mark.parametrize(("operator", "expected"), [
    (aten.relu.default, ["Tensor"]), (aten.zeros.default, ["Tensor"])])
def test_results(operator, expected):
    results = operator._schema.returns
    assert [result.type.annotation_str for result in results] == expected
    assert [(result.name, result.has_default_value()) for result in results] == [("", False)] * len(expected)


def test_shared_memory():
    written, view, plain = (operator._schema.arguments[0].alias_info
                            for operator in (aten.add_.Tensor, aten.view.default, aten.relu.default))
    assert (written.is_write, view.is_write, plain) == (True, False, None)


def test_operators_of_libraries():
    library = torch.library.Library("schemas", "DEF")
    library.define("f.one(Tensor(a!) x, Tensor?[] y, float z=1.5) -> ()")
    try:
        overload = torch.ops.schemas.f.one
        schema = overload._schema
        assert (schema.name, schema.overload_name, schema.is_mutable, schema.returns) == ("schemas::f", "one", True, [])
        assert [a.type.annotation_str for a in schema.arguments] == ["Tensor", "List[Optional[Tensor]]", "float"]
        assert schema.arguments[2].default_value == 1.5
        assert (overload.__name__, str(overload), overload.name()) == ("f.one", "schemas.f.one", "schemas::f.one")
        assert overload.overloadpacket is torch.ops.schemas.f
        assert torch.ops.schemas.f.overloads() == ["one"]
    finally:
        library._destroy()
