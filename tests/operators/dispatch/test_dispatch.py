"""Dispatch: keys, tables, schemas, composites, and how operators are listed."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator

import pytest

import tensocket_operators as torch
from tensocket_core import keys
from tensocket_core.device import open_device
from tensocket_core.dispatch import fallback
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS, clear_tables
from tensocket_core.dispatch.schema import parse_schema
from tensocket_core.launch import entries
from tensocket_operators import functions as F
from tensocket_operators.kinds import composite as composites
from tensocket_operators.kinds.composite import composite
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import (
    ArgumentTypeError,
    DeviceMismatch,
    ShapeError,
    UnsupportedOperator,
)

ADD = OPERATORS["add"]
FLOAT32, INT64 = 1 << dtypes.float32.bit, 1 << dtypes.int64.bit


@pytest.fixture
def empty_tables() -> Iterator[None]:
    clear_tables()
    yield
    clear_tables()


# -------------------------------------------------------------------------------------------------------------- keys


def test_doctests_of_keys() -> None:
    assert doctest.testmod(keys) == (0, 1)


def test_every_dtype_has_a_bit_of_its_own() -> None:
    bits = [keys.dtype_bit(dtype) for dtype in dtypes.ALL]
    assert len(set(bits)) == len(bits)
    assert [keys.DTYPE_OF[bit] for bit in bits] == list(dtypes.ALL)
    assert all(bit & keys.DTYPE_MASK == bit for bit in bits)


def test_fields_of_keys_do_not_overlap() -> None:
    numbers = [*keys.SCALAR.values(), *keys.SCALAR_LEFT.values()]
    devices = keys.DEVICE_MASK & ((1 << 64) - 1)
    fields = [keys.DTYPE_MASK, keys.AUTOCAST, keys.DIM0, keys.AUTOGRAD, keys.WRAPPER, *numbers, keys.LAZY, devices]
    assert sum(fields) == (1 << 64) - 1
    assert sum(numbers) == keys.SCALAR_MASK


def test_keys_of_tensors() -> None:
    state = open_device("ref")
    assert torch.zeros(2)._key == FLOAT32 | state.key
    assert torch.tensor(1)._key == INT64 | keys.DIM0 | state.key
    assert torch.zeros(2, requires_grad=True)._key == FLOAT32 | keys.AUTOGRAD | state.key
    assert torch.zeros(2, device="ref:1")._key & keys.DEVICE_MASK == open_device("ref:1").key != state.key
    assert torch.zeros(2, 3)[0, 0]._key & keys.DIM0
    assert not torch.zeros(()).reshape(1)._key & keys.DIM0


@pytest.mark.parametrize(("key", "words"), [
    (0, ""), (FLOAT32 | INT64, "int64 float32"), (FLOAT32 | keys.SCALAR[int], "float32 number:int"),
    (FLOAT32 | keys.SCALAR_LEFT[bool], "float32 number:bool"), (keys.WRAPPER | keys.AUTOGRAD, "autograd wrapper")])
def test_keys_in_words(key: int, words: str) -> None:
    assert sorted(keys.describe_key(key).split()) == sorted(words.split())


def test_opening_a_device_twice_gives_one_entry() -> None:
    assert open_device("ref") is open_device("ref:0") is open_device(torch.device("ref", 0))
    assert "ref:0" in repr(open_device("ref"))


# ------------------------------------------------------------------------------------------------------------ tables


@pytest.mark.usefixtures("empty_tables")
def test_the_table_is_filled_on_first_use_and_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor([1.0, 2.0])
    clear_tables()
    assert ADD.table == {}
    assert (x + x).tolist() == [2.0, 4.0]
    assert list(ADD.table) == [x._key]
    resolved: list[int] = []
    monkeypatch.setattr(type(ADD), "resolve", lambda self, key: resolved.append(key))
    assert (x + x).tolist() == [2.0, 4.0]
    assert resolved == []


@pytest.mark.usefixtures("empty_tables")
def test_recording_closures_share_the_closure_below() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    clear_tables()
    y = x + x
    assert y.requires_grad
    assert set(ADD.table) == {x._key, x._key & ~keys.AUTOGRAD}


@pytest.mark.usefixtures("empty_tables")
def test_numbers_and_dtypes_have_keys_of_their_own() -> None:
    x, n = torch.tensor([1.0, 2.0]), torch.tensor([3, 4])
    clear_tables()
    assert (x + 1).tolist() == [2.0, 3.0]
    assert (x + n).tolist() == [4.0, 6.0]
    assert set(ADD.table) == {x._key | keys.SCALAR[int], x._key | n._key}


def test_changed_fallback_settings_clear_all_tables() -> None:
    torch.zeros(2) + 1
    assert ADD.table
    torch.set_fallback(None)
    assert not any(operator.table for operator in OPERATORS.values())


def test_calls_by_record_dispatch_like_functions() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert call(ADD, x, 2).tolist() == [3.0, 4.0]
    with torch.no_grad():
        assert not call(ADD, x, 2).requires_grad
    with pytest.raises(ArgumentTypeError, match=re.escape("[add] an argument of type str — operands are tensors or")):
        call(ADD, x, "2")
    with pytest.raises(ArgumentTypeError, match=re.escape("[cat] an argument of type Tensor — tensors come in a")):
        call(OPERATORS["cat"], x, 0)


# ----------------------------------------------------------------------------------------------------- mixed devices


def test_tensors_of_two_devices_do_not_mix() -> None:
    with pytest.raises(DeviceMismatch, match=re.escape("[add] tensors on ref:0 and ref:1 — all tensors of one")):
        torch.zeros(2) + torch.zeros(2, device="ref:1")
    with pytest.raises(DeviceMismatch, match=r"\[matmul\] tensors on "):
        torch.zeros(2, 2) @ torch.zeros(2, 2, device="plain")
    with pytest.raises(DeviceMismatch, match=r"\[cat\] tensors on "):
        torch.cat([torch.zeros(2), torch.zeros(2, device="ref:1")])
    assert (torch.zeros(2) + torch.ones(2)).tolist() == [1, 1]


def test_zero_dimensional_tensors_follow_the_others() -> None:
    x = torch.tensor([1.0, 2.0], device="ref:1")
    number = torch.tensor(3.0)
    for result in (x + number, number + x):
        assert str(result.device) == "ref:1"
        assert result.tolist() == [4.0, 5.0]
    with pytest.raises(DeviceMismatch):
        torch.tensor(1.0) + torch.tensor(1.0, device="ref:1")


def test_a_call_without_tensors_is_refused() -> None:
    for function in (F.xlogy, F.float_power, F.special_zeta):
        with pytest.raises(TypeError, match="tensor"):
            function(2, 3)
    with pytest.raises(ArgumentTypeError, match=re.escape("[xlogy] no tensors — at least one tensor is needed — pass")):
        F.xlogy(1, 2)
    with pytest.raises(ValueError, match=re.escape("[cat] no tensors — there is at least one — pass some")):
        torch.cat([])


@pytest.mark.parametrize("name", [
    "maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", "logical_xor", "atan2", "gcd", "lcm", "ldexp",
    "hypot", "nextafter", "heaviside", "isclose", "complex", "polar", "matmul", "outer", "take", "logaddexp",
])
def test_numbers_are_no_tensors(name: str) -> None:
    function, x = getattr(F, name), torch.tensor([1, 2])
    with pytest.raises(ArgumentTypeError, match=r"a number as .* — this operand is a tensor — pass tensor\.new_tensor"):
        function(x, 2)
    with pytest.raises(TypeError):
        function(2, x)
    with pytest.raises(TypeError):
        function(2, 3)


# ----------------------------------------------------------------------------------------------------------- schemas


def test_schemas_are_parsed() -> None:
    text = "f(Tensor! input, int... dims, Operand? other=None, *, str mode='a, (b', int[] k=(1, 2)) -> Tensor"
    schema = parse_schema(text)
    assert (schema.name, schema.returns, schema.text) == ("f", "Tensor", text)
    assert schema.names == ("input", "dims", "other", "mode", "k")
    assert schema.tensors == (0, 2)
    first, dims, other, mode, k = schema.parameters
    assert first.mutated
    assert not other.mutated
    assert (dims.type, other.optional, other.default, other.keyword_only) == ("int...", True, "None", False)
    assert (mode.default, mode.keyword_only, k.default, k.type) == ("'a, (b'", True, "(1, 2)", "int[]")
    assert parse_schema("g() -> any").parameters == ()


@pytest.mark.parametrize("text", ["", "f", "f(Tensor x)", "f(x) -> Tensor", "f(Tensor x,, Tensor y) -> Tensor",
                                  "f(Tensor! ? x) -> Tensor"])
def test_other_texts_are_no_schemas(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_schema(text)


def test_every_record_is_complete() -> None:
    for name, operator in OPERATORS.items():
        assert operator.name == operator.schema.name == name
        assert operator.doc.endswith("."), name
    for name, record in COMPOSITES.items():
        assert record.schema.name == name
        assert record.body.__doc__, name


def test_names_are_defined_once() -> None:
    with pytest.raises(ValueError, match="operator 'add' is defined twice"):
        Operator("add(Tensor input) -> Tensor", "Twice.")
    with pytest.raises(ValueError, match="composite 'chunk' is defined twice"):
        composite("chunk(Tensor input) -> Tensor")(lambda input: input)
    assert OPERATORS["add"] is ADD


def test_composites_have_the_parameters_of_their_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composites, "COMPOSITES", {})
    with pytest.raises(ValueError, match=r"composite probe: schema \('input', 'dim'\), function \('input', 'axis'\)"):
        composite("probe(Tensor input, int dim) -> Tensor")(lambda input, axis: input)
    assert composites.COMPOSITES == {}
    composite("probe(Tensor input, int... dims) -> Tensor")(lambda input, *dims: input)
    assert set(composites.COMPOSITES) == {"probe"}


def test_errors_inside_composites_name_the_composite() -> None:
    with pytest.raises(ShapeError, match=r"^\[outer\] a — b — c$") as caught, blame("outer"):
        raise ShapeError("inner", "a", "b", "c")
    assert caught.value.operator == "outer"
    error = ShapeError("outer", "a", "b", "c")
    with pytest.raises(ShapeError) as same, blame("outer"):
        raise error
    assert same.value is error
    with pytest.raises(KeyError), blame("outer"):
        raise KeyError("not ours")


# ----------------------------------------------------------------------------------------------------------- listing


def test_registrations_say_how_operators_run() -> None:
    generated = torch.registrations("ref")
    assert generated.keys() == OPERATORS.keys()
    assert generated["add"] == "plan"
    composed = torch.registrations("plain")
    assert composed["add"] == "registered"  # the primitive of that name
    assert composed["sigmoid"] == "composite"
    replays = {"replay"} if entries.ENABLED else set()
    own = {how for name, how in generated.items() if "::" not in name}  # tests may have defined others
    assert own == {"plan", "generated", "view", "host"} | replays
    assert set(composed.values()) == {"registered", "composite", "view", "host"}
    assert generated["transpose"] == composed["transpose"] == "view"


def test_registrations_of_a_dtype() -> None:
    assert torch.registrations("ref", torch.int64)["add"] == "plan"


def test_host_operators_are_refused_where_nobody_declares_them() -> None:
    profile = type("Undeclared", (), {"host_kernels": frozenset(), "host_resident": False})
    state = type("Entry", (), {"runtime": type("Runtime", (), {"profile": profile})})
    tensor = type("Value", (), {"_device_state": state, "dtype": torch.int64, "device": "dev:0", "nbytes": 8})
    with pytest.raises(UnsupportedOperator, match=re.escape("[randperm] int64 on dev:0 — the backend neither runs")):
        fallback.note_host_operator("randperm", tensor)
