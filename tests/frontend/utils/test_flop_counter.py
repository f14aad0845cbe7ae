"""Counts of operations against closed forms."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket.errors import ArgumentTypeError
from tensocket.nn import functional as F
from tensocket.utils.flop_counter import FlopCounterMode, register_flop_formula
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_operators.library.libraries import remove_operator


def _count(function):
    with FlopCounterMode(display=False) as mode:
        function()
    return mode.get_total_flops()


def _t(*shape, requires_grad=False):
    return torch.ones(*shape, requires_grad=requires_grad)


@pytest.mark.parametrize(("function", "expected"), [
    (lambda: torch.mm(_t(4, 5), _t(5, 6)), 2 * 4 * 5 * 6),
    (lambda: torch.mm(_t(5, 5), _t(5, 5), out=torch.zeros(5, 5)), 2 * 5 ** 3),
    (lambda: torch.bmm(_t(3, 4, 5), _t(3, 5, 6)), 3 * 2 * 4 * 5 * 6),
    (lambda: torch.addmm(_t(4, 6), _t(4, 5), _t(5, 6), beta=0.5), 2 * 4 * 5 * 6),
    (lambda: torch.baddbmm(_t(3, 4, 6), _t(3, 4, 5), _t(3, 5, 6)), 3 * 2 * 4 * 5 * 6),
    (lambda: torch.einsum("ab,bc->ac", _t(6, 7), _t(7, 8)), 2 * 6 * 7 * 8),
    (lambda: torch.nn.Linear(9, 10)(_t(8, 9)), 2 * 8 * 9 * 10),
    (lambda: F.conv1d(_t(2, 3, 6), _t(6, 3, 4), padding=1), 2 * (2 * 5) * 4 * 3 * 6),
    (lambda: F.conv2d(_t(2, 3, 6, 6), _t(6, 3, 4, 4), padding=1), 2 * (2 * 5 * 5) * 16 * 3 * 6),
    (lambda: F.conv2d(_t(2, 4, 6, 6), _t(6, 2, 3, 3), groups=2), 2 * (2 * 4 * 4) * 9 * 2 * 6),
    (lambda: F.conv_transpose2d(_t(1, 4, 30, 2), _t(4, 8, 2, 2), stride=2), 2 * (30 * 2) * 4 * 4 * 8),
    (lambda: _t(4, 5).cos().sum(), 0),
    (lambda: torch.mm(_t(4, 5, requires_grad=True), _t(5, 6)).sum().backward(), 2 * 2 * 4 * 5 * 6),
    (lambda: torch.mm(_t(4, 5, requires_grad=True), _t(5, 6, requires_grad=True)).sum().backward(), 3 * 2 * 4 * 5 * 6),
    (lambda: F.conv2d(_t(2, 3, 6, 6, requires_grad=True), _t(6, 3, 4, 4, requires_grad=True)).sum().backward(),
     3 * 2 * (2 * 3 * 3) * 16 * 3 * 6),
    (lambda: F.conv_transpose2d(_t(1, 4, 5, 5, requires_grad=True),
                                _t(4, 8, 2, 2, requires_grad=True)).sum().backward(), 3 * 2 * 25 * 4 * 4 * 8),
    (lambda: F.scaled_dot_product_attention(_t(2, 3, 7, 8), _t(2, 3, 9, 8), _t(2, 3, 9, 4)),
     2 * (2 * 3) * 7 * 9 * (8 + 4)),
])  # fmt: skip
def test_counts(function, expected):
    assert _count(function) == expected


def test_counts_start_anew_in_every_block():
    mode = FlopCounterMode(display=False)
    for _ in range(2):
        with mode:
            torch.mm(_t(2, 3), _t(3, 4))
        assert mode.get_flop_counts() == {"Global": {torch.ops.aten.mm: 48}}


def test_modules_have_their_share(capsys):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 8, bias=False), torch.nn.Linear(8, 2, bias=False)

        def forward(self, x):
            return self.second(self.first(x))

    model = Two()
    with FlopCounterMode(depth=2) as mode:
        model(_t(3, 4)).sum().backward()
    forward = {"Two.first": 2 * 3 * 4 * 8, "Two.second": 2 * 3 * 8 * 2}
    counts = {name: sum(each.values()) for name, each in mode.get_flop_counts().items()}
    # The first layer has the gradient of its weight only, the second that of its input, too.
    assert counts["Two.first"] == 2 * forward["Two.first"]
    assert counts["Two.second"] == 3 * forward["Two.second"]
    assert counts["Two"] == counts["Global"] == counts["Two.first"] + counts["Two.second"]
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["Module", "FLOP", "%", "Total"]
    assert [line.split()[0] for line in said if "aten" not in line][2:] == ["Two", "Two.first", "Two.second"]
    assert "57.14%" in next(line for line in said if line.strip().startswith("Two.first"))


def test_own_formulas():
    mode = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.add: lambda *shapes, out_shape: 5})
    with mode:
        _t(4, 5) + _t(4, 5)
    assert mode.get_total_flops() == 5

    def count(*args, out_val):
        return out_val.numel()

    count._get_raw = True
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mul: count}) as mode:
        _t(4, 5) * _t(4, 5)
    assert mode.get_total_flops() == 20
    operator = torch.library.custom_op("probe::counted", lambda x: x * 2, mutates_args=(),
                                       schema="(Tensor x) -> Tensor")
    try:
        register_flop_formula(torch.ops.probe.counted)(lambda shape, out_shape: 7 * shape[0])
        with FlopCounterMode(display=False) as mode:
            operator(_t(3))
        assert mode.get_total_flops() == 21
    finally:
        remove_operator(OPERATORS["probe::counted"])


def test_what_is_said():
    with pytest.warns(UserWarning, match="the mods argument is not needed anymore"):
        FlopCounterMode(torch.nn.Linear(2, 2))
    with pytest.raises(ArgumentTypeError, match=r"\[register_flop_formula\] a str — targets are operators"):
        register_flop_formula("mm")
    assert FlopCounterMode(display=False).get_table().splitlines()[-1].split() == ["Global", "0", "0%"]
