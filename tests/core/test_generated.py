"""The generated functions and methods are those of the records."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import tensocket_core as tc
from tensocket_core import functions
from tensocket_core.dispatch.composite import COMPOSITES
from tensocket_core.dispatch.registry import OPERATORS

ROOT = Path(__file__).parents[2]
RECORDS = [*OPERATORS.values(), *COMPOSITES.values()]


def is_function(record):
    return record.function if record.name in OPERATORS and OPERATORS.get(record.name) is record else record.is_function


def test_committed_files_are_fresh():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "generate_operators.py"), "--check"], capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_function_is_public_in_one_namespace():
    names = [*functions.__all__, *functions.NN_FUNCTIONAL]
    assert len(set(names)) == len(names)
    for name in names:
        assert callable(getattr(functions, name))
    for name in functions.__all__:
        assert getattr(tc, name) is getattr(functions, name)


@pytest.mark.parametrize("name", sorted({*functions.__all__, *functions.NN_FUNCTIONAL}))
def test_functions_are_documented_and_have_signatures(name):
    function = getattr(functions, name)
    assert function.__doc__
    assert function.__doc__[0] != " "
    parameters = inspect.signature(function).parameters
    assert parameters
    assert all(p.annotation is not p.empty for p in parameters.values())


def test_methods_take_the_tensor_first():
    for record in RECORDS:
        if not record.method:
            continue
        name = record.method if isinstance(record.method, str) else record.schema.name
        for spelling in (name, *record.aliases):
            assert callable(getattr(tc.Tensor, spelling)), spelling


def test_python_operators():
    for record in RECORDS:
        for name in record.dunder:
            assert name in vars(tc.tensors.Operators) if hasattr(tc, "tensors") else hasattr(tc.Tensor, name)
    augmented = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
    assert all(hasattr(tc.Tensor, f"__i{name}__") for name in augmented)


def test_keyword_arguments_of_generated_functions():
    x = tc.tensor([1.0, 2.0])
    assert tc.add(input=x, other=x, alpha=2).tolist() == [3.0, 6.0]
    assert tc.sum(input=x, dim=0, keepdim=True).tolist() == [3.0]
    assert tc.sum(x, axis=0).item() == 3.0
    assert tc.transpose(input=x.reshape(1, 2), dim0=0, dim1=1).shape == (2, 1)
    assert tc.cat(tensors=[x, x], dim=0).shape == (4,)
    with pytest.raises(TypeError, match="unexpected keyword"):
        tc.exp(x, nothing=1)
