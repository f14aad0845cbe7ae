"""``rearrange`` against NumPy, and patterns that are refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket.functorch.einops import rearrange
from tensocket.functorch.einops._parsing import AnonymousAxis, ParsedExpression, _ellipsis, parse_pattern

X = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)


@pytest.mark.parametrize(("pattern", "lengths", "expected"), [
    ("a b c d -> a b c d", {}, X),
    ("a b c d -> d c b a", {}, X.transpose(3, 2, 1, 0)),
    ("a b c d -> (a b) c d", {}, X.reshape(6, 4, 5)),
    ("a b c d -> c (d a) b", {}, X.transpose(2, 3, 0, 1).reshape(4, 10, 3)),
    ("a b (h w) d -> a w (b d) h", {"h": 2}, X.reshape(2, 3, 2, 2, 5).transpose(0, 3, 1, 4, 2).reshape(2, 2, 15, 2)),
    ("... c d -> ... d c", {}, X.swapaxes(2, 3)),
    ("a ... -> (a ...)", {}, X.reshape(-1)),
    ("a ... d -> d ... a", {}, X.transpose(3, 1, 2, 0)),
    ("... -> 1 ... ()", {}, X[None, ..., None]),
    ("a (b 1) c d -> a b () c d", {}, X[:, :, None]),
    ("a b c d ... -> a ... b c d", {}, X),
])
def test_values_are_those_of_numpy(pattern: str, lengths: dict[str, int], expected: Any) -> None:
    result = rearrange(torch.tensor(X.tolist()), pattern, **lengths)
    assert tuple(result.shape) == expected.shape
    assert result.tolist() == expected.tolist()


def test_lists_are_stacked_and_gradients_go_through() -> None:
    rows = [torch.tensor(row.tolist(), dtype=torch.float64) for row in X[0, :, :, 0]]
    assert rearrange(rows, "n c -> c n").tolist() == X[0, :, :, 0].T.tolist()
    x = torch.ones(2, 3, requires_grad=True)
    (rearrange(x, "a b -> (b a)") * torch.arange(6.0)).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    assert rearrange(torch.tensor(5), "->").item() == 5
    batch = torch.vmap(lambda x: rearrange(x, "a b -> b a"))(torch.ones(4, 2, 3))
    assert tuple(batch.shape) == (4, 3, 2)


@pytest.mark.parametrize(("pattern", "lengths", "rule"), [
    ("a b c d", {}, "Pattern must contain a single '->' separator"),
    ("a b c d -> ...", {}, "Ellipsis found in right side, but not left side of a pattern"),
    ("a (b ...) -> a b ...", {}, "Ellipsis is parenthesis in the left side is not allowed"),
    ("a b c d -> a b c", {}, "Identifiers only on one side of rearrange expression (should be on both)"),
    ("a b c d -> a b c d", {"e": 2}, "Identifiers not found in rearrange expression"),
    ("a b c d -> a b c d", {_ellipsis: 2}, "is not an allowed axis identifier"),
    ("a b c 5 -> a b c 5", {}, "rearrange only supports unnamed axes of size 1"),
    ("a b c 0 -> a b c", {}, "an axis without a name has a positive length"),
    ("a b c c -> a b c", {}, "Indexing expression contains duplicate dimension 'c'"),
    ("a b c _d -> a b c _d", {}, "Invalid axis identifier: axis name should should not start or end with underscore"),
    ("a b c d-e -> a b c d-e", {}, "Invalid axis identifier: not a valid python identifier"),
    ("a b .. c -> a b c", {}, "dots are those of one ellipsis (...)"),
    ("a ((b c) d) -> a b c d", {}, "groups of axes are not nested"),
    ("a b) c d -> a b c d", {}, "Brackets are not balanced"),
    ("a (b c d -> a b c d", {}, "Imbalanced parentheses in expression"),
    ("a b c -> a b c", {}, "Number of dimensions in pattern (3) must be equal to the number of dimensions in"),
    ("a b c d e ... -> a b c d e ...", {}, "Number of dimensions in pattern (5) must be less than or equal to the "
     "number of dimensions in the tensor (4)"),
    ("a b c (d e) -> a b c d e", {"d": 3}, "all but one axis of a group have a length, and the product of all lengths "
     "is the size"),
    ("a b c (d e) -> a b c d e", {}, "all but one axis of a group have a length, and the product of all lengths is the "
     "size"),
])
def test_patterns_that_are_refused(pattern: str, lengths: dict[str, int], rule: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(rule)) as caught:
        rearrange(torch.tensor(X.tolist()), pattern, **lengths)
    assert isinstance(caught.value, ValueError)


def test_lengths_are_integers() -> None:
    with pytest.raises(ArgumentTypeError, match=r"rearrange axis lengths must be integers, got: <class 'float'>"):
        rearrange(torch.ones(4), "(a b) -> a b", a=2.0)


def test_parsed_patterns() -> None:
    left, right = parse_pattern("... a (b 3) 1 -> (... a) b", {})
    assert left.composition[:2] == [_ellipsis, ["a"]]
    assert left.composition[3] == []
    assert left.has_non_unitary_anonymous_axes
    assert repr(left.composition[2][1]) == "3-axis"
    assert right.composition == [[_ellipsis, "a"], ["b"]]
    assert (left.has_ellipsis_parenthesized, right.has_ellipsis_parenthesized) == (False, True)
    assert AnonymousAxis("2") != AnonymousAxis("2")
    assert ParsedExpression("a _ _", allow_underscore=True).composition[1:] == [["_"], ["_"]]
    assert ParsedExpression("a a", allow_duplicates=True).identifiers == {"a"}
    with pytest.warns(RuntimeWarning, match="keywords: for"):
        assert ParsedExpression.check_axis_name("for")
    with pytest.warns(FutureWarning, match="'axis'"):
        assert ParsedExpression.check_axis_name("axis")
