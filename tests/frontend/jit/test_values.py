"""Scripts compute what Python computes."""

from __future__ import annotations

import enum
from typing import Dict, List, NamedTuple, Optional, Tuple, Union

import pytest

import tensocket as torch
from tensocket import Tensor


class Point(NamedTuple):
    x: Tensor
    count: int = 3


class Color(enum.Enum):
    RED = 1
    GREEN = 2


def branches(x: Tensor, y: int) -> Tensor:
    if y > 3 and bool(x.sum() > 0):
        z = x * 2
    elif y == 0 or not bool(x.any()):
        return x - 1
    else:
        z = x + y
    return z if y < 10 else z.neg()


def loops(n: int) -> Tuple[int, List[int]]:
    total, seen = 0, [0]
    for i in range(1, n, 2):
        if i == 5:
            continue
        if i > 9:
            break
        seen.append(i)
        total += i
    while total > 3:
        total -= 4
        if total == 7:
            continue
        for k, v in enumerate(seen):
            total += 0 * k * v
    return total, seen


def nested(n: int) -> int:
    for i in range(n):
        for j in range(n):
            if i * j == 6:
                return i
    return -1


def containers(names: List[str]) -> Dict[str, int]:
    out: Dict[str, int] = {}
    for name in names:
        out[name] = len(name) + out.get(name, 0)
    del out[names[0]]
    out.update({"more": 1})
    pairs = [(k, v) for k, v in out.items()]
    pairs.sort()
    return {k: v for k, v in pairs}


def optional(x: Optional[Tensor], scale: Optional[float] = None) -> Tensor:
    if x is None:
        x = torch.zeros(2)
    assert x is not None
    return x if scale is None else x * scale


def narrowed(x: Optional[int], n: int) -> int:
    if x is None:
        x = 1
    for _ in range(n):
        x = x + 1
    return x


def unions(x: Union[int, str]) -> str:
    if isinstance(x, int):
        return "int " + str(x + 1)
    return x.upper()


def tuples(p: Point, color: Color) -> Tuple[Tensor, str, int]:
    first, *rest = (1, 2.5, "a")
    a, (b, c) = p.count, (first, rest)
    return Point(p.x + b, a).x, color.name, color.value + len(c)


def indices(x: Tensor, at: Tensor) -> List[Tensor]:
    y = x.clone()
    y[0, 1:] = 7
    y[at] = y[at] * 2
    y[1] += 1
    y[:, -1] -= x[..., 0]
    return [y, x[1], x[-1, ::2], x[..., 1], x[None, :, 1], x[at], x[:, at], x[1:, None, 0]]


def numbers(a: int, b: float) -> Tuple[float, int, int, float, bool, int]:
    return a / 2, a // 2, a % 3, b ** 2, a < b < 10.0, (a << 2) | 1


def text(name: str, n: int) -> str:
    return f"{name}-{n}" + " {} {}".format(n, name)[1:] + "%s=%d" % (name, n) + name.strip()[::-1]


X = torch.tensor([[1.0, 2.0, 3.0], [-4.0, 5.0, 6.0]])
CALLS = [
    (branches, (X, 5)), (branches, (X, 0)), (branches, (X, 2)), (branches, (X, 12)), (branches, (X * 0, 2)),
    (loops, (4,)), (loops, (20,)), (nested, (2,)), (nested, (5,)), (containers, (["b", "aa", "b"],)),
    (optional, (None,)), (optional, (X, 2.0)), (narrowed, (None, 2)), (narrowed, (5, 0)), (unions, (3,)), (unions,
                                                                                                           ("ab",)),
    (tuples, (Point(X, 2), Color.GREEN)), (indices, (X, torch.tensor([1, 0]))), (numbers, (7, 8.5)), (text, ("ab ", 4)),
]


def same(one, other):
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize(("function", "args"), CALLS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_script_computes_what_python_computes(function, args):
    script = torch.jit.script(function)
    assert same(script(*args), function(*args))


@pytest.mark.parametrize(("function", "args"), CALLS, ids=lambda x: getattr(x, "__name__", ""))
def test_printed_code_computes_the_same_after_a_file(function, args, tmp_path):
    torch.jit.save(torch.jit.script(function), tmp_path / "function.pt")
    again = torch.jit.load(tmp_path / "function.pt")
    found, wanted = again(*args), function(*args)
    assert str(found) == str(wanted)
    again.save(tmp_path / "again.pt")
    assert str(torch.jit.load(tmp_path / "again.pt")(*args)) == str(wanted)


def test_gradients_reach_the_arguments():
    x = X.clone().requires_grad_()
    torch.jit.script(branches)(x, 5).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_an_exception_of_a_script_is_an_error_with_the_class_name():
    @torch.jit.script
    def fail(x: int):
        if x > 1:
            raise ValueError("too large " + str(x))

    assert fail(1) is None
    with pytest.raises(torch.jit.Error, match="builtins.ValueError: too large 3"):
        fail(3)


def test_containers_are_copied_on_the_way_in():
    @torch.jit.script
    def grow(x: List[int]) -> List[int]:
        x.append(1)
        return x

    given = [0]
    assert grow(given) == [0, 1]
    assert given == [0]


@pytest.mark.parametrize(("args", "rule"), [
    ((1, 2), "Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'"),
    ((X,), "is missing value for argument 'y'"), ((X, 1, 2), "expected at most 2 argument"),
])
def test_calls_are_checked(args, rule):
    with pytest.raises(RuntimeError, match=f"branches.*{rule}.*the schema is .+pass arguments of these types"):
        torch.jit.script(branches)(*args)


def test_unknown_keyword():
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'z'"):
        torch.jit.script(branches)(X, z=1)


def test_the_graph_has_blocks_and_types():
    graph = torch.jit.script(branches).graph
    conditional = graph.findNode("prim::If")
    assert [len(list(block.nodes())) > 0 for block in conditional.blocks()] == [True, True]
    assert [str(value.type()) for value in graph.inputs()] == ["Tensor", "int"]
    assert str(graph).startswith("graph(%x : Tensor,\n      %y : int):")
    loop = torch.jit.script(loops).graph.findAllNodes("prim::Loop")
    assert len(loop) == 3


def test_inlined_graph():
    def inner(x):
        return x + 1

    @torch.jit.script
    def outer(x):
        return inner(x) * 2

    assert outer.graph.findNode("prim::CallFunction") is not None
    assert outer.inlined_graph.findNode("prim::CallFunction") is None
    assert [node.kind() for node in outer.inlined_graph.nodes() if "Constant" not in node.kind()] == [
        "aten::add", "aten::mul"]


def test_fork_and_wait():
    def slow(x: Tensor, n: int):
        return x * n

    @torch.jit.script
    def both(x: Tensor):
        later = torch.jit.fork(slow, x, 3)
        return x + torch.jit.wait(later)

    assert both(X).tolist() == (X * 4).tolist()


def test_is_scripting_and_ignored_functions():
    @torch.jit.ignore
    def python(x: Tensor) -> Tensor:
        return x + float(len([1, 2]))

    @torch.jit.unused
    def never(x: Tensor) -> Tensor:
        return x

    @torch.jit.script
    def function(x: Tensor):
        if not torch.jit.is_scripting():
            return never(x)
        return python(x)

    assert not torch.jit.is_scripting()
    assert function(X).tolist() == (X + 2).tolist()


def test_classes():
    @torch.jit.script
    class Counter:
        def __init__(self, start: int):
            self.count = start

        def step(self, by: int) -> int:
            self.count += by
            return self.count

    @torch.jit.script
    def run(n: int) -> int:
        counter = Counter(n)
        counter.step(2)
        return counter.step(3)

    assert run(4) == 9


def test_code_of_a_script():
    @torch.jit.script
    def function(x: Tensor, n: int = 2):
        return torch.relu(x) + n

    assert function.code == "def function(x: Tensor,\n    n: int=2) -> Tensor:\n  return torch.add(torch.relu(x), n)\n"


def test_tuples_join_lists_of_their_type():
    def size(x: Tensor, dim: int, count: Optional[int] = None):
        if count is None:
            count = 3
        return x.size()[:dim] + (count, ) + x.size()[dim + 1:], (1, 2) + x.size()  # noqa: RUF005  the test

    scripted = torch.jit.script(size)
    assert scripted(torch.ones(2, 4, 5), 1) == ([2, 3, 5], [1, 2, 2, 4, 5])

    def other(x: Tensor):
        return x.size() + ("a",)  # noqa: RUF005  the test

    with pytest.raises(RuntimeError, match=r"add of int\[\] and \(str\): Arguments for call are not valid"):
        torch.jit.script(other)


def test_a_conjunction_with_a_known_falsehood_is_not_compiled():
    def checked(x: Tensor, c: Optional[Tensor] = None):
        if c is not None and not isinstance(c, Tensor):
            raise TypeError(f"a {no_such_name(c)}")  # noqa: F821  never compiled
        return x if c is None else x + c

    scripted = torch.jit.script(checked)
    assert scripted(torch.ones(1)).tolist() == [1.0]
    assert scripted(torch.ones(1), torch.ones(1)).tolist() == [2.0]


def places(x: Tensor, i: Tensor):
    """Indices around an ellipsis; those behind it count from the end."""
    return [x[..., None], x[..., None, None], x[..., None, 0], x[..., 0, None], x[..., i, None], x[..., i, 0],
            x[None, ..., 1:, None], x[..., 1:2, 0], x[0, ...], x[i, ..., None], x[..., None, i], x[i, ..., 0], x[...]]


def test_indices_around_an_ellipsis():
    x, i = torch.arange(24.0).reshape(2, 3, 4), torch.tensor([1, 0])
    values, rows = x.numpy(), i.numpy()
    expected = [values[..., None], values[..., None, None], values[..., None, 0], values[..., 0, None],
                values[..., rows, None], values[..., rows, 0], values[None, ..., 1:, None], values[..., 1:2, 0],
                values[0, ...], values[rows, ..., None], values[..., None, rows], values[rows, ..., 0], values]
    for found, each in zip(torch.jit.script(places)(x, i), expected, strict=True):
        assert found.tolist() == each.tolist()


class WithClassMethod:
    def __init__(self, factor: int):
        self.factor = factor

    @classmethod
    def double(cls, factor):
        return cls(2 * factor)

    def times(self, x: Tensor) -> Tensor:
        return x * self.factor


def test_class_methods_are_left_to_python():
    def multiplied(x: Tensor):
        return WithClassMethod(3).times(x)

    assert torch.jit.script(multiplied)(torch.ones(1)).tolist() == [3.0]


def test_variables_of_a_function_may_change_their_types():
    def to_none(x: Tensor) -> Tensor:
        y = x + 1
        x = None
        return y

    def to_int(x: Tensor) -> int:
        y: Tensor = x * 2
        y = int(y.sum())
        x = 3
        return x + y

    x = torch.tensor([1.0, 2.0])
    assert torch.jit.script(to_none)(x).tolist() == [2, 3]
    assert torch.jit.script(to_int)(x) == 9


def test_graph_modules_drop_values_in_scripts():
    class Net(torch.nn.Module):
        def forward(self, x):
            return (x + 1).relu() * x

    traced = torch.fx.symbolic_trace(Net())
    assert "= None" in traced.code
    x = torch.tensor([1.0, -2.0])
    assert torch.jit.script(traced)(x).tolist() == [2, 0]


def number_of_a_union(x: Union[float, int], y: Optional[Union[int, float]]) -> Tuple[float, int]:
    return float(x), int(1 if y is None else y)


def test_numbers_of_unions_are_converted():
    scripted = torch.jit.script(number_of_a_union)
    assert scripted(3, 2.7) == (3.0, 2)
    assert scripted(1.5, None) == (1.5, 1)


def shifted_unless_compiled(x: Tensor) -> Tensor:
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return x
    return x + 1


def test_scripts_are_not_compiled_functions():
    assert torch.jit.script(shifted_unless_compiled)(torch.ones(1)).item() == 2


def parts_of_results(x: Tensor) -> List[Tensor]:
    largest = x.max(dim=1, keepdim=True)
    return [largest.values, largest.indices, torch.sort(x).indices, torch.linalg.slogdet(x).logabsdet,
            torch.linalg.svd(x).Vh.abs(), torch.linalg.lstsq(x, x).solution, torch.linalg.cholesky_ex(x).L,
            torch.linalg.lu_factor(x).pivots]


def test_results_are_found_by_their_names():
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    for found, wanted in zip(torch.jit.script(parts_of_results)(x), parts_of_results(x), strict=True):
        torch.testing.assert_close(found, wanted)


def lists_of_tensors(x: Tensor) -> Tuple[List[List[float]], int]:
    rows: List[List[float]] = x.tolist()
    count: int = x.argmax().tolist()
    return rows, count


def test_lists_of_tensors_have_the_annotated_type(tmp_path):
    scripted = torch.jit.script(lists_of_tensors)
    torch.jit.save(scripted, tmp_path / "lists.pt")
    for each in (scripted, torch.jit.load(tmp_path / "lists.pt")):
        assert each(torch.tensor([[1.0, 2.0], [3.0, 0.5]])) == ([[1.0, 2.0], [3.0, 0.5]], 2)
