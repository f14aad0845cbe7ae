"""Names without documentation that libraries take from PyTorch: containers, context managers, modules and workers."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import tensocket as torch
from tensocket import errors, nn
from tensocket.utils import _pytree

Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize("tree", [[1, 2], (1, 2), {"a": 1, "b": 2}, OrderedDict(a=1, b=2), Pair(1, 2)])
def test_functions_of_containers(tree):
    name = "namedtuple" if isinstance(tree, Pair) else type(tree).__name__.lower()
    children, context = getattr(_pytree, f"_{name}_flatten")(tree)
    assert getattr(_pytree, f"_{name}_unflatten")(children, context) == tree
    pairs, _ = getattr(_pytree, f"_{name}_flatten_with_keys")(tree)
    assert [child for _, child in pairs] == list(children) == [1, 2]
    assert _pytree._get_node_type(tree) in _pytree.SUPPORTED_NODES


def test_a_leaf_has_its_class():
    assert _pytree._get_node_type(3) is int


def test_context_managers_that_decorate():
    from tensocket.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager

    entered = []

    class scoped(_DecoratorContextManager):
        def __init__(self, name="x"):
            self.name = name

        def __enter__(self):
            entered.append(self.name)

        def __exit__(self, *error):
            entered.append("end")

        def clone(self):
            return type(self)(self.name)

    class plain(_NoParamDecoratorContextManager):
        __enter__ = scoped.__enter__
        __exit__ = scoped.__exit__
        name = "plain"

    assert scoped("a")(lambda x: x + 1)(1) == 2
    assert plain(lambda x: x + 1)(1) == 2
    with plain():
        entered.append("body")
    assert entered == ["a", "end", "plain", "end", "plain", "body", "end"]


def test_seeds_of_workers_are_words():
    from tensocket.utils.data._utils.worker import _generate_state

    words = _generate_state(1 << 40, 3)
    assert len(words) == 4
    assert all(type(w) is int and 0 <= w < 1 << 32 for w in words)
    assert words != _generate_state(1 << 40, 4)
    np.random.default_rng(words)


def test_tensors_of_modules_are_swapped():
    from tensocket.nn.utils._named_member_accessor import swap_tensor

    layer, other = nn.Linear(2, 2), nn.Parameter(torch.ones(2, 2))
    before = layer.weight
    assert swap_tensor(layer, "weight", other) is before
    assert layer.weight is other
    with pytest.raises(errors.ArgumentError, match="Linear has a tensor of that name"):
        swap_tensor(layer, "never", other)
    assert swap_tensor(layer, "new", torch.ones(1), allow_missing=True) is None
    assert layer.new.tolist() == [1]


def test_hooks_of_all_modules_are_a_table():
    table = nn.modules.module._global_parameter_registration_hooks
    handle = nn.modules.module.register_module_parameter_registration_hook(lambda *args: None)
    assert handle.id in table
    handle.remove()
    assert handle.id not in table
    assert nn.modules.module._EXTRA_STATE_KEY_SUFFIX == "_extra_state"
