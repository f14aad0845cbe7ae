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
    ("a b c d", {}, "a pattern has two sides, divided by one '->'"),
    ("a b c d -> ...", {}, "an ellipsis on the right is on the left, too"),
    ("a (b ...) -> a b ...", {}, "the ellipsis on the left is in no group"),
    ("a b c d -> a b c", {}, "every axis is on both sides"),
    ("a b c d -> a b c d", {"e": 2}, "axes with lengths are in the pattern"),
    ("a b c d -> a b c d", {_ellipsis: 2}, "a length belongs to one axis"),
    ("a b c 5 -> a b c 5", {}, "axes without a name have length 1"),
    ("a b c 0 -> a b c", {}, "an axis without a name has a positive length"),
    ("a b c c -> a b c", {}, "an axis is named once on each side"),
    ("a b c _d -> a b c _d", {}, "an axis has a name or is a number: names neither begin nor end with an underscore"),
    ("a b c d-e -> a b c d-e", {}, "an axis has a name or is a number: names are Python identifiers"),
    ("a b .. c -> a b c", {}, "dots are those of one ellipsis (...)"),
    ("a ((b c) d) -> a b c d", {}, "groups of axes are not nested"),
    ("a b) c d -> a b c d", {}, "every closing bracket has an opening one"),
    ("a (b c d -> a b c d", {}, "every opening bracket has a closing one"),
    ("a b c -> a b c", {}, "a pattern names every dimension, or has an ellipsis for the others"),
    ("a b c d e ... -> a b c d e ...", {}, "a pattern names every dimension"),
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
    with pytest.raises(ArgumentTypeError, match="lengths of axes are integers"):
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
    with pytest.warns(RuntimeWarning, match="the axis 'for' has the name of a keyword"):
        assert ParsedExpression.check_axis_name("for")
    with pytest.warns(FutureWarning, match="'axis'"):
        assert ParsedExpression.check_axis_name("axis")
