"""The library torchvision from PyPI, on the operators that take the place of its library in C++."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed")

PROGRAM = """
from tensocket import as_torch
as_torch.install()
import torch, torchvision
from torchvision import models, ops

assert torchvision.extension._has_ops()
assert torchvision.extension._check_cuda_version() == -1
boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.9], [2.0, 2.0, 8.0, 8.0]])
assert ops.nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5).tolist() == [1, 2]
assert ops.batched_nms(boxes, torch.tensor([0.5, 0.9, 0.1]), torch.tensor([0, 1, 0]), 0.5).tolist() == [1, 0, 2]
x = torch.arange(2 * 8 * 9 * 10.0).reshape(2, 8, 9, 10).requires_grad_()
for layer in (ops.RoIAlign(2, 1.0, 2), ops.RoIPool(2, 1.0), ops.PSRoIAlign(2, 1.0, 2), ops.PSRoIPool(2, 1.0)):
    result = layer(x, [boxes[:1], boxes[1:]])
    result.sum().backward()
    assert result.shape[0] == 3 and x.grad.sum() > 0
layer = ops.DeformConv2d(8, 6, 3, padding=1)
layer(x, torch.zeros(2, 18, 9, 10, requires_grad=True), torch.ones(2, 9, 9, 10)).sum().backward()
assert layer.weight.grad.shape == (6, 8, 3, 3)
assert ops.roi_align(x.to("meta"), torch.zeros(4, 5, device="meta"), 3).shape == (4, 8, 3, 3)
torch.manual_seed(0)
model = models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, num_classes=3)
target = {"boxes": torch.tensor([[10.0, 12.0, 50.0, 60.0]]), "labels": torch.tensor([1])}
losses = model([torch.rand(3, 64, 80)], [target])
sum(losses.values()).backward()
assert sorted(losses) == ["loss_box_reg", "loss_classifier", "loss_objectness", "loss_rpn_box_reg"]
assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
(found,) = model.eval()([torch.rand(3, 64, 80)])
assert set(found) == {"boxes", "labels", "scores"}
assert models.quantization.mobilenet_v2(weights=None, num_classes=4).eval()(torch.rand(1, 3, 32, 32)).shape == (1, 4)
print("all as expected")
"""


def test_torchvision_computes_with_our_operators() -> None:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, timeout=500)
    assert done.stdout.splitlines()[-1:] == ["all as expected"], done.stderr
