"""Which modules are being computed."""

from __future__ import annotations

import tensocket as torch
from tensocket import nn
from tensocket.utils.module_tracker import ModuleTracker


class Inner(nn.Module):
    def __init__(self, note):
        super().__init__()
        self.note = note

    def forward(self, x):
        y = x * 2
        self.note("forward")
        y.register_hook(lambda grad: self.note("backward"))
        return y * 1


class Outer(nn.Module):
    def __init__(self, note):
        super().__init__()
        self.first = Inner(note)
        self.listed = nn.ModuleList([Inner(note)])

    def forward(self, x):
        return self.listed[0](self.first(x))


def test_names_of_modules_forward_and_backward():
    seen = []
    model = Outer(lambda way: seen.append((way, sorted(tracker.parents), tracker.is_bw)))
    x = torch.ones(2, requires_grad=True)
    with ModuleTracker() as tracker:
        for _ in range(2):
            model(x).sum().backward()
            assert tracker.parents == {"Global"}
    assert seen == 2 * [
        ("forward", ["Global", "Outer", "Outer.first"], False),
        ("forward", ["Global", "Outer", "Outer.listed.0"], False),
        ("backward", ["Global", "Outer", "Outer.listed.0"], True),
        ("backward", ["Global", "Outer", "Outer.first"], True),
    ]
