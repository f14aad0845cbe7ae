"""A structure with everything that a file can hold."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import tensocket as torch
from tensocket import nn


@pytest.fixture
def everything():
    return OrderedDict(
        numbers=[1, -(2**63), 2**200, 1.5, -0.0, float("inf"), complex(1, float("-inf")), True, None],
        text=("ä\n\0", "", b"\x00\xff"),
        nested={1: {"a": (1, [2])}, (2, "b"): {3}, None: frozenset([4])},
        types=[torch.float32, torch.bfloat16, torch.device("opencl", 1), torch.Size([2, 3])],
        weight=nn.Parameter(torch.arange(6, dtype=torch.float32).reshape(2, 3)),
        tensors=[torch.tensor(7), torch.empty(0, 3), torch.tensor([True, False]), torch.ones(2, dtype=torch.float16)],
    )
