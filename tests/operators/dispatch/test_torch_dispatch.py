"""``__torch_dispatch__``: modes and classes that take operators below autograd, and tensors without memory."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any, ClassVar

import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.modes import ACTIVE, STATE, thread_state
from tensocket_core.dispatch.protocol import TorchDispatchMode
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.keys import AUTOGRAD, WRAPPER
from tensocket_core.pytree import tree_map
from tensocket_operators import Tensor
from tensocket_operators import functions as F
from tensocket_operators.differentiation.gradcheck import GradcheckError, gradcheck, gradgradcheck
from tensocket_operators.namespaces import ops
from tensocket_plugins.contract.errors import ArgumentTypeError, MissingDataError, UnsupportedOperator

aten = ops.aten


class Logged(TorchDispatchMode):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name)
        self.calls.append((func, types, args, kwargs))
        return func(*args, **kwargs)


class Wrapped(Tensor):
    """Holds a tensor, and does with it what is done to itself."""

    elem: Any
    names: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls: Any, elem: Any, requires_grad: bool = False) -> Any:
        made = Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype,
            device=elem.device, requires_grad=requires_grad)  # fmt: skip
        made.elem = elem
        return made

    def __repr__(self) -> str:
        return f"Wrapped({self.elem.tolist()})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.names.append(func.name)
        args, kwargs = tree_map(lambda x: x.elem if isinstance(x, Wrapped) else x, (args, kwargs))
        return tree_map(lambda x: Wrapped(x) if isinstance(x, Tensor) else x, func(*args, **kwargs))


def wrapped(*values: float, grad: bool = False) -> Any:
    Wrapped.names.clear()
    return Wrapped(torch.tensor([float(v) for v in values]), grad)


# ------------------------------------------------------------------------------------------------------------ modes


def test_modes_see_operators_below_composites_and_autograd() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with Logged() as mode:
        y = F.mse_loss(x, torch.zeros(2, 3))
        y.backward()
    assert y.grad_fn is not None
    assert x.grad.tolist() == [[pytest.approx(1 / 3)] * 3] * 2
    assert mode.names[0] == "zeros"
    assert "mse_loss" not in mode.names
    assert {"sub", "mean"} <= set(mode.names)
    assert all(types == () for _, types, _, _ in mode.calls)
    assert ACTIVE == []


def test_arguments_are_those_of_the_schema() -> None:
    x, base = torch.ones(2, 3), torch.tensor([1.0, 2.0])
    with Logged() as mode:
        x.sum()
        x.sum(1, keepdim=True)
        x.view(3, 2)
        2 - base
        F.cat([base, base])
        torch.zeros(2, 3)
        torch.full((2,), 1.5, dtype=torch.float64)
    calls = [(func, args, kwargs) for func, _, args, kwargs in mode.calls]
    assert [(func, kwargs) for func, _, kwargs in calls] == [
        (aten.sum.default, {}), (aten.sum.dim_IntList, {}), (aten.view.default, {}), (aten.sub.Tensor, {}),
        (aten.cat.default, {}), (aten.zeros.default, {}),
        (aten.full.default, {"dtype": torch.float64}),
    ]  # fmt: skip
    assert [args[1:] for _, args, _ in calls[:3]] == [(), (1, True), ((3, 2),)]
    assert calls[3][1][0] == 2
    assert (calls[5][1], calls[6][1]) == (((2, 3),), ((2,), 1.5))


def test_modes_nest_and_do_not_see_their_own_calls() -> None:
    class Negated(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **kwargs) * -1

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with Logged() as outer, Negated():
        y = x * 3
    assert y.tolist() == [-3.0, -6.0]
    assert outer.names == ["mul", "mul"]
    y.sum().backward()  # recording was of the operator, not of what the mode did
    assert x.grad.tolist() == [3.0, 3.0]


def test_modes_see_in_place_operators_and_views() -> None:
    with Logged() as mode:
        x = torch.zeros(4)
        assert x.add_(1) is x
        x.view(2, 2)[0].mul_(3)
    assert x.tolist() == [3, 3, 1, 1]
    assert mode.names == ["zeros", "add_", "view", "basic_index", "mul_"]
    assert x._version == 2
    leaf = torch.ones(4, requires_grad=True)
    with mode:
        y = leaf * 1
        y[:2].mul_(2)
        y.sum().backward()
    assert leaf.grad.tolist() == [2, 2, 1, 1]


def test_modes_may_answer_or_leave_the_call_to_classes() -> None:
    class Silent(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    class Polite(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(types)
            return NotImplemented if types else func(*args, **kwargs)

    x, seen = wrapped(1), []
    with Polite():
        y = x + 1
    assert y.elem.tolist() == [2.0]
    assert seen == [(Wrapped,), ()]  # the call, and the one that the class makes of it
    with pytest.raises(ArgumentTypeError, match=re.escape("[add] a call for Silent — a mode's or class's")), Silent():
        x.elem + 1
    with pytest.raises(NotImplementedError, match="defines no __torch_dispatch__"), TorchDispatchMode():
        x.elem + 1


def test_handlers_run_without_recording() -> None:
    class Looks(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            assert STATE.exclude & AUTOGRAD
            result = func(*args, **kwargs)
            assert result.grad_fn is None
            return result

    x = torch.ones(2, requires_grad=True)
    with Looks():
        y = x.exp() * x
    assert y.grad_fn.name() == "MulBackward0"


# ---------------------------------------------------------------------------------------------------------- classes


def test_wrappers_have_a_geometry_and_no_memory() -> None:
    x = Tensor._make_wrapper_subclass(Wrapped, (2, 3), dtype=torch.float64, requires_grad=True)
    assert (x.shape, x.stride(), x.dtype, x.storage_offset()) == ((2, 3), (3, 1), torch.float64, 0)
    assert x.requires_grad
    assert x._key & WRAPPER
    y = Tensor._make_wrapper_subclass(Wrapped, (2,), (5,), 7)
    assert (y.stride(), y.storage_offset(), y.dtype) == ((5,), 7, torch.float32)
    for read in (lambda: y.numpy(force=True), x.tolist):
        with pytest.raises(MissingDataError, match="a class with __torch_dispatch__ holds its values itself"):
            read()
    with pytest.raises(ArgumentTypeError, match=r"\[_make_wrapper_subclass\] class Tensor — tensors without memory"):
        Tensor._make_wrapper_subclass(Tensor, (2,))
    with pytest.raises(ArgumentTypeError, match=r"\[_make_wrapper_subclass\] dtype 'float' — dtype is a tensocket"):
        Tensor._make_wrapper_subclass(Wrapped, (2,), dtype="float")


def test_a_dispatching_class_overrides_no_functions_by_itself() -> None:
    assert not Wrapped._overrides

    class Both(Wrapped):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "function"

    assert Both(torch.ones(1)) + 1 == "function"


def test_operators_on_wrappers() -> None:
    x = wrapped(1, 2)
    assert (2 * x + 1).elem.tolist() == [3.0, 5.0]
    assert x.sum().item() == 3.0
    assert F.cat([x, torch.ones(1)]).elem.tolist() == [1.0, 2.0, 1.0]
    assert Wrapped.names == ["mul", "add", "sum", "_local_scalar_dense", "cat"]
    assert x.new_empty_strided((2, 3), (1, 2)).elem.stride() == (1, 2)
    assert torch.zeros_like(x).elem.tolist() == x.new_zeros(2).elem.tolist() == [0.0, 0.0]
    assert x.detach().elem is not None
    assert isinstance(F.linear(torch.ones(1, 2), F.stack([x, x])), Wrapped)


def test_gradients_of_wrappers_are_wrappers() -> None:
    x = wrapped(1, 2, grad=True)
    y = (x.exp() * x).sum()
    assert y.requires_grad
    y.backward()
    assert isinstance(x.grad, Wrapped)
    assert x.grad.elem.tolist() == pytest.approx([2 * 2.718281828, 3 * 7.389056099])
    (grad,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    grad.sum().backward()
    assert x.grad.elem.tolist() == pytest.approx([2 * 2.718281828 + 6, 3 * 7.389056099 + 12])


def test_in_place_operators_and_views_of_wrappers() -> None:
    x = Wrapped(torch.ones(2, 2))
    assert x.add_(1) is x
    assert x._version == 1
    view = x.transpose(0, 1)
    assert view._base is x
    view.mul_(3)
    assert x.elem.tolist() == [[6.0, 6.0], [6.0, 6.0]]
    assert x._version == view._version == 2
    leaf = wrapped(1, 2, grad=True)
    y = leaf * 1
    y.mul_(leaf)
    y.sum().backward()
    assert leaf.grad.elem.tolist() == [2.0, 4.0]


def test_modes_come_before_classes() -> None:
    x = wrapped(1)
    with Logged() as mode:
        x + 1
    assert mode.names == Wrapped.names == ["add"]
    assert mode.calls[0][1] == (Wrapped,)


def test_subclasses_come_before_bases() -> None:
    class Finer(Wrapped):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(types)
            return Finer(torch.ones(1))

    class Unable(Wrapped):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    asked: list[Any] = []
    assert type(wrapped(1) + Finer(torch.ones(1))) is Finer
    assert type(Unable(torch.ones(1)) + Finer(torch.ones(1))) is Finer
    assert asked == [(Finer, Wrapped), (Unable, Finer)]
    with pytest.raises(ArgumentTypeError, match=r"\[exp\] a call for Unable — "):
        Unable(torch.ones(1)).exp()


def test_a_class_may_keep_its_memory() -> None:
    """Fake quantisation: values are rounded to sixteenths after every operator."""

    class Rounded(Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = super().__torch_dispatch__(func, types, args, kwargs)
            return cls._make_subclass((made * 16).round() / 16) if isinstance(made, Tensor) else made

    x = Rounded._make_subclass(torch.tensor([0.1, 0.3]), True)
    y = x * 1
    assert type(y) is Rounded
    y.sum().backward()
    with thread_state(exclude=WRAPPER):
        assert y.detach().tolist() == [0.125, 0.3125]
        assert x.grad.tolist() == [1.0, 1.0]


# ------------------------------------------------------------------------------------------------------------ names


def test_operators_by_name() -> None:
    add = aten.add
    assert add.Tensor is add.Scalar is add.out is OPERATORS["add"]
    assert add.Tensor.overloadpacket is add is aten.add is copy.deepcopy(add)
    assert copy.deepcopy(add.Tensor) is add.Tensor
    assert (add.__name__, str(add), repr(add)) == ("add", "aten.add", "<OpOverloadPacket(op='aten.add')>")
    assert {"Tensor", "Scalar"} <= set(add.overloads()) <= set(dir(add))
    assert add(torch.ones(1), 2).tolist() == [3.0]
    assert aten.matmul.default is OPERATORS["matmul"]
    assert aten.zeros(2).tolist() == aten.zeros([2]).tolist() == [0.0, 0.0]
    assert aten.absolute is aten.abs
    assert aten._to_copy.default is OPERATORS["convert"]
    assert "add" in dir(aten)
    assert not any("::" in name for name in dir(aten))
    assert "aten" in dir(ops)
    assert (repr(ops), repr(aten)) == ("<operators of all libraries>", "<operators of aten>")
    with pytest.raises(AttributeError, match="library 'aten' has no operator 'nothing'"):
        _ = aten.nothing
    with pytest.raises(AttributeError, match="'add' has no attribute 'nothing'"):
        _ = add.Tensor.nothing


#: From PyTorch 2.13: of overloads, ``__name__``, ``str``, ``name()``, ``namespace``, ``_overloadname`` and ``repr``.
OVERLOADS = {
    "add": ("Tensor", "add.Tensor", "aten.add.Tensor", "aten::add.Tensor"),
    "_to_copy": ("default", "_to_copy.default", "aten._to_copy.default", "aten::_to_copy"),
    "transpose": ("int", "transpose.int", "aten.transpose.int", "aten::transpose.int"),
    "zeros": ("default", "zeros.default", "aten.zeros.default", "aten::zeros"),
}


@pytest.mark.parametrize("name", sorted(OVERLOADS))
def test_overloads_have_the_names_of_pytorch(name: str) -> None:
    overload, short, text, full = OVERLOADS[name]
    found = getattr(getattr(aten, name), overload)
    assert (found.__name__, str(found), found.name(), found._name) == (short, text, full, full)
    assert (found.namespace, found._opname, found._overloadname) == ("aten", name, overload)
    assert repr(found) == f"<OpOverload(op='aten.{name}', overload='{overload}')>"
    assert found.overloadpacket._qualified_op_name == f"aten::{name}"
    assert found.is_view is (name == "transpose")


#: From PyTorch 2.13: of operators, some overloads, and names that are no overloads of them.
EXISTING = {
    "sum": ("default dim_IntList IntList_out", "Tensor dim nothing_out"),
    "where": ("self ScalarOther self_out", "other"),
    "sort": ("default stable values values_stable", "dim"), "div": ("Tensor_mode out_mode float", "dim"),
    "max": ("dim dim_max other unary_out", "dims"), "relu": ("default out", "Tensor Tensor_out int"),
    "index_put_": ("hacked_twin", "Tensor"), "pow": ("Tensor_Tensor int_float", "Tensor_mode"),
}


@pytest.mark.parametrize("name", sorted(EXISTING))
def test_operators_have_their_own_overloads(name: str) -> None:
    packet = getattr(aten, name)
    known, unknown = EXISTING[name]
    assert {getattr(packet, overload) for overload in known.split()} == {packet.default}
    for overload in unknown.split():
        message = f"^The underlying op of 'aten.{name}' has no overload name '{overload}'"
        with pytest.raises(AttributeError, match=message):
            getattr(packet, overload)


def test_floating_point_operations_are_counted() -> None:
    class Counter(TorchDispatchMode):
        flops = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is aten.matmul.default:
                a, b = args
                self.flops += 2 * a.numel() * b.shape[-1]
            return func(*args, **kwargs)

    x, w = torch.ones(8, 4), torch.ones(4, 5, requires_grad=True)
    with Counter() as counter:
        F.matmul(x, w).sum().backward()
    assert counter.flops == 2 * 8 * 4 * 5 + 2 * 4 * 8 * 5


def test_wrappers_take_the_keywords_of_pytorch() -> None:
    x = Tensor._make_wrapper_subclass(Wrapped, (1, 2, 3, 4), memory_format=torch.channels_last, pin_memory=False,
                                      layout=torch.strided, dispatch_device=False, storage_size=None)
    assert (x.stride(), x.layout) == ((24, 1, 8, 2), torch.strided)
    sparse = Tensor._make_wrapper_subclass(Wrapped, (2,), layout=torch.sparse_coo)
    assert (sparse.layout, x.layout) == (torch.sparse_coo, torch.strided)
    with pytest.raises(UnsupportedOperator, match="device, layout and sizes of a tensor are those that it was "
                                                  "made with"):
        Tensor._make_wrapper_subclass(Wrapped, (2,), dispatch_layout=True)
    with pytest.raises(UnsupportedOperator, match="dispatch_sizes_strides_policy='sizes'"):
        Tensor._make_subclass(Wrapped, torch.ones(2), dispatch_sizes_strides_policy="sizes")
    with pytest.raises(ArgumentTypeError, match=r"keywords \['colour'\] — there are no such keywords"):
        Tensor._make_wrapper_subclass(Wrapped, (2,), colour="red")


def test_classes_print_what_they_hold() -> None:
    x = Tensor._make_wrapper_subclass(Wrapped, (2,), dtype=torch.float64, requires_grad=True)
    assert Tensor.__repr__(x, tensor_contents="held") == (
        "Wrapped(held, device='ref:0', dtype=tensocket.float64, requires_grad=True)")


class Slotted(Wrapped):
    __slots__ = ("more",)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(lambda x: x.elem if isinstance(x, Wrapped) else x, (args, kwargs))
        return tree_map(lambda x: Slotted(x) if isinstance(x, Tensor) else x, func(*args, **kwargs))


def test_copies_and_pickles_of_wrappers() -> None:
    x = Slotted(torch.tensor([1.0, 2.0]), requires_grad=True)
    x.more = [3]
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(made) is Slotted
        assert (made.elem.tolist(), made.more, made.requires_grad, made.dtype) == ([1.0, 2.0], [3], True, torch.float32)
        assert made.elem is not x.elem
        assert made.more is not x.more


def test_copies_need_a_clone_of_the_class() -> None:
    class Unwraps(Wrapped):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return args[0].elem.clone()

    with pytest.raises(RuntimeError, match=re.escape(
            "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types that "
            "properly implement clone() and for which cloning returns another instance of the same subclass")):
        copy.deepcopy(Unwraps(torch.ones(1)))


def test_operators_that_return_tensors_get_tensors() -> None:
    class Texts(Wrapped):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "text"

    with pytest.raises(RuntimeError, match="Unable to cast the result to Tensor, which the operator returns"):
        Texts(torch.ones(1)).neg()
    for view in (lambda x: x.detach(), lambda x: x.data, lambda x: x.view(1)):
        with pytest.raises(RuntimeError, match="Unable to cast the result to Tensor, which the operator returns"):
            view(Texts(torch.ones(1)))


def test_gradients_of_tensors_that_only_their_class_reads_are_checked() -> None:
    def double(*values: float) -> Any:
        return Wrapped(torch.tensor(values, dtype=torch.float64)).requires_grad_()

    assert gradcheck(lambda x, y: (x.exp() * y).sum(), (double(0.5, 1.0), double(2.0, -1.0)))
    assert gradgradcheck(lambda x: x.sin(), (double(0.5, 1.0),))
    with pytest.raises(GradcheckError, match="gradients agree with differences"):
        gradcheck(lambda x: x.detach() * x, (double(0.5),))
