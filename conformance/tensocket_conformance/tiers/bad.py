"""Cases of bad input, which must raise a typed error that names the operator and leave the device working."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import numpy as np

import tensocket as ts

from ..case import Case, Excluded
from ..numerics import Failure
from ..subject import Subject

_F = ts.nn.functional


class _Inputs:
    """Tensors on the device for invalid calls."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def __call__(self, *shape: int) -> Any:
        return ts.ones(*shape, device=self.subject.device)

    def index(self, *values: int) -> Any:
        return ts.tensor(list(values), dtype=ts.int64, device=self.subject.device)


_Act = Callable[[_Inputs], Any]
#: Name, action, error class in ``tensocket.errors``, the operator that the message names, a further fragment.
_ROWS: Final[tuple[tuple[str, _Act, str, str, str], ...]] = (
    ("add.shapes", lambda x: x(3, 4) + x(5), "ShapeError", "add", "5"),
    ("mul.shapes", lambda x: ts.mul(x(2, 3), x(3, 2)), "ShapeError", "mul", "2, 3"),
    ("where.shapes", lambda x: ts.where(x(3) > 0, x(4), x(4)), "ShapeError", "where", "3"),
    ("add_.shapes", lambda x: x(3).add_(x(2, 3)), "ShapeError", "add", "3"),
    ("matmul.shapes", lambda x: x(2, 3) @ x(4, 5), "ShapeError", "matmul", "2, 3"),
    ("mm.rank", lambda x: ts.mm(x(2), x(2, 2)), "ShapeError", "mm", "2"),
    ("bmm.batch", lambda x: ts.bmm(x(2, 3, 4), x(3, 4, 5)), "ShapeError", "bmm", "2, 3, 4"),
    ("reshape.count", lambda x: x(3, 4).reshape(5, 2), "ShapeError", "reshape", "5, 2"),
    ("reshape.guess", lambda x: x(3, 4).reshape(-1, -1), "ShapeError", "reshape", "-1"),
    ("view.strides", lambda x: x(3, 4).t().view(12), "ShapeError", "view", "12"),
    ("expand.shape", lambda x: x(3, 4).expand(3, 5), "ShapeError", "expand", "3, 5"),
    ("cat.shapes", lambda x: ts.cat([x(2, 3), x(2, 4)]), "ShapeError", "cat", "2, 4"),
    ("stack.shapes", lambda x: ts.stack([x(2), x(3)]), "ShapeError", "stack", "3"),
    ("permute.dims", lambda x: x(2, 3).permute(0, 0), "ShapeError|DimensionError|ArgumentError", "permute", "0"),
    ("zeros.negative", lambda x: x(-1, 3), "ShapeError|ArgumentError", "", "-1"),
    ("sum.dim", lambda x: x(3, 4).sum(2), "DimensionError", "sum", "2"),
    ("amax.dim", lambda x: ts.amax(x(3), -2), "DimensionError", "amax", "-2"),
    ("softmax.dim", lambda x: _F.softmax(x(3, 4), 5), "DimensionError", "softmax", "5"),
    ("transpose.dim", lambda x: x(3, 4).transpose(0, 2), "DimensionError", "transpose", "2"),
    ("unsqueeze.dim", lambda x: x(3).unsqueeze(4), "DimensionError", "unsqueeze", "4"),
    ("cat.dim", lambda x: ts.cat([x(2), x(3)], 1), "DimensionError", "cat", "1"),
    ("amax.empty", lambda x: ts.amax(x(0, 3), 0), "IndexOutOfRange|ShapeError|DimensionError", "amax", ""),
    ("argmax.empty", lambda x: ts.argmax(x(0)), "IndexOutOfRange|ShapeError|DimensionError", "argmax", ""),
    ("select.index", lambda x: x(3, 4).select(0, 3), "IndexOutOfRange", "", "3"),
    ("getitem.index", lambda x: x(3)[5], "IndexOutOfRange", "", "5"),
    ("getitem.rank", lambda x: x(3)[0, 0], "IndexOutOfRange|DimensionError", "", ""),
    ("index.range", lambda x: x(3)[x.index(0, 7)], "IndexOutOfRange", "index", ""),
    ("index_select.range", lambda x: ts.index_select(x(3), 0, x.index(-4)), "IndexOutOfRange", "index_select", ""),
    ("gather.range", lambda x: ts.gather(x(3), 0, x.index(3)), "IndexOutOfRange", "gather", ""),
    ("embedding.range", lambda x: _F.embedding(x.index(9), x(4, 2)), "IndexOutOfRange", "embedding", ""),
    ("nll_loss.range", lambda x: _F.nll_loss(x(2, 3), x.index(0, 3)), "IndexOutOfRange", "nll_loss", ""),
    ("cross_entropy.range", lambda x: _F.cross_entropy(x(2, 3), x.index(0, -1)), "IndexOutOfRange", "", ""),
    ("scatter_add.range", lambda x: ts.scatter_add(x(3), 0, x.index(5), x(1)), "IndexOutOfRange", "scatter_add", ""),
    ("index_put.range", lambda x: x(3).index_put_((x.index(4),), x(1)), "IndexOutOfRange", "index_put", ""),
    ("cross_entropy.rows", lambda x: _F.cross_entropy(x(2, 3), x.index(0)), "ShapeError|ArgumentError", "", ""),
    ("index.float", lambda x: x(3)[x(2)], "IndexOutOfRange|DtypeError|ArgumentTypeError", "index", "float"),
    ("gather.float", lambda x: ts.gather(x(3), 0, x(2)), "DtypeError", "gather", "float"),
    ("bitwise_and.float", lambda x: ts.bitwise_and(x(3), x(3)), "DtypeError|UnsupportedDtype", "bitwise_and", "float"),
    ("neg.bool", lambda x: -(x(3) > 0), "DtypeError", "neg", "bool"),
    ("sub.bool", lambda x: (x(3) > 0) - (x(3) > 0), "DtypeError", "sub", "bool"),
    ("add_.cast", lambda x: x.index(1).add_(x(1)), "DtypeError", "add_", "float"),
    ("matmul.dtypes", lambda x: x(2, 2) @ x.index(1, 2), "DtypeError|ShapeError", "matmul", ""),
    ("div_.integers", lambda x: x.index(1, 2).div_(2), "DtypeError", "div", ""),
    ("add.string", lambda x: ts.add(x(3), cast(Any, "a")), "ArgumentTypeError", "add", "str"),
    ("split.size", lambda x: x(4).split(0), "ArgumentError|ShapeError", "split", "0"),
    ("chunk.count", lambda x: x(4).chunk(0), "ArgumentError|ShapeError", "chunk", "0"),
    ("dropout.p", lambda x: _F.dropout(x(3), 1.5), "ArgumentError", "dropout", "1.5"),
    ("item.many", lambda x: x(3).item(), "ShapeError|ArgumentError", "item", "3"),
    ("item.truth", lambda x: bool(x(3)), "ShapeError|ArgumentError", "", ""),
    ("cat.none", lambda x: ts.cat([]), "ArgumentError|ShapeError", "cat", ""),
    ("expand.inplace", lambda x: x(1).expand(3).add_(x(3)), "ShapeError|ArgumentError", "add", ""),
)


def _raises(subject: Subject, act: Callable[[], Any], classes: str, operator: str, fragment: str) -> None:
    wanted = tuple(getattr(ts.errors, name) for name in classes.split("|"))
    try:
        act()
        # An asynchronous device may raise the error only now.
        ts.synchronize(subject.device)
    except wanted as error:
        text = str(error)
        missing = [part for part in (operator, fragment) if part and part not in text]
        if missing:
            raise Failure(f"the message does not say {missing}: {text}") from None
    except Exception as error:
        raise Failure(f"raised {type(error).__name__}, expected {classes}: {error}") from error
    else:
        raise Failure(f"nothing was raised, expected {classes}")
    _still_works(subject)


def _still_works(subject: Subject) -> None:
    x = ts.from_numpy(np.arange(7, dtype=np.float32)).to(subject.device)
    if subject.get(x + x).tolist() != [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]:
        raise Failure("after the error an addition is wrong")


def _row(case_id: str, act: _Act, classes: str, operator: str, fragment: str) -> Case:
    def check(subject: Subject) -> None:
        _raises(subject, lambda: act(_Inputs(subject)), classes, operator, fragment)

    return Case(case_id, check, ("T1.memory.roundtrip/f32/values",), quick=True)


def _mixed(operation: Callable[[Any, Any], Any]) -> Callable[[Subject], None]:
    def check(subject: Subject) -> None:
        if subject.name == "cpu":
            raise Excluded("there is no second device to mix with the CPU")
        here, there = ts.ones(3, device=subject.device), ts.ones(3, device="cpu")
        _raises(subject, lambda: operation(here, there), "DeviceMismatch", "", subject.name)

    return check


def _device(name: Callable[[Subject], str], classes: str) -> Callable[[Subject], None]:
    def check(subject: Subject) -> None:
        bad = name(subject)
        _raises(subject, lambda: ts.ones(2, device=bad), classes, "", bad)

    return check


def _partial(subject: Subject) -> None:
    """Check that a refused in-place operation has not written a part of its result."""
    x = ts.ones(4, 3, device=subject.device)
    _raises(subject, lambda: x.add_(ts.ones(5, device=subject.device)), "ShapeError", "add", "")
    if np.any(subject.get(x) != 1.0):
        raise Failure("the refused operation changed its argument")


def cases() -> Iterator[Case]:
    """Yield the cases with bad input."""
    for name, act, classes, operator, fragment in _ROWS:
        yield _row(f"T2.bad.{name}", act, classes, operator, fragment)
    checks: tuple[tuple[str, Callable[[Subject], None]], ...] = (
        ("mixed.add", _mixed(lambda x, y: x + y)), ("mixed.matmul", _mixed(lambda x, y: x @ y)),
        ("mixed.where", _mixed(lambda x, y: ts.where(x > 0, x, y))), ("mixed.cat", _mixed(lambda x, y: ts.cat([x, y]))),
        ("mixed.mul_", _mixed(lambda x, y: x.mul_(y))),
        ("device.index", _device(lambda s: f"{s.name}:{ts.device_count(s.name)}", "InvalidDeviceIndex")),
        ("device.far", _device(lambda s: f"{s.name}:4294967296", "InvalidDeviceIndex")),
        ("device.negative", _device(lambda s: f"{s.name}:-1", "InvalidDeviceIndex")),
        ("device.zeros", _device(lambda s: f"{s.name}:01", "InvalidDeviceIndex")),
        ("device.colon", _device(lambda s: f"{s.name}:", "InvalidDeviceIndex|UnknownDevice")),
        ("device.digits", _device(lambda s: f"{s.name}:\u0661", "InvalidDeviceIndex")),
        ("device.typo", _device(lambda s: f"{s.name}zz", "UnknownDevice")),
        ("inplace.partial", _partial),
    )
    for name, check in checks:
        yield Case(f"T2.bad.{name}", check, ("T1.memory.roundtrip/f32/values",), quick=True)
