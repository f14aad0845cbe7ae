"""Fixtures of the tests of ONNX."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket.utils._pytree import tree_leaves


@pytest.fixture
def compare():
    """Export a module, and compare the results of onnxruntime with its own; return the ONNX program."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")

    def check(model, *args, others=(), tolerance=1e-5, **options):
        model.eval()
        program = torch.onnx.export(model, args, **options)
        for given in (args, *others):
            with torch.no_grad():
                expected = model(*given)
            expected = tree_leaves(expected)
            found = program(*given)
            assert len(found) == len(expected)
            for mine, wanted in zip(found, expected, strict=True):
                assert mine.dtype is wanted.dtype
                assert mine.shape == wanted.shape
                torch.testing.assert_close(mine, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
        return program

    return check
