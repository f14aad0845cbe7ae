"""The generated functions and methods are what the records say."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_operators import functions

TOOLS = Path(__file__).parents[2] / "tools"


needs_tools = pytest.mark.skipif(not TOOLS.exists(), reason="the tools of the repository are not beside the tests")


@needs_tools
@pytest.mark.parametrize("tool", ["generate_operators.py", "generate_stubs.py"])
def test_generated_files_are_up_to_date(tool: str) -> None:
    done = subprocess.run([sys.executable, str(TOOLS / tool), "--check"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_record_is_reachable_by_its_names() -> None:
    for record in (*OPERATORS.values(), *COMPOSITES.values()):
        names = [record.schema.name, *record.aliases]
        if record.function:
            assert all(callable(getattr(functions, name)) for name in names), names
        if record.method:
            methods = [record.method, *record.aliases] if isinstance(record.method, str) else names
            assert all(callable(getattr(torch.Tensor, name)) for name in (*methods, *record.dunder)), names


@needs_tools
def test_generator_imports_nothing_generated() -> None:
    code = "import sys, generate_stubs; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=TOOLS, capture_output=True, text=True, timeout=120)
    loaded = done.stdout.split()
    assert "tensocket_operators.records" in loaded, done.stderr
    assert not [name for name in loaded if "._functions" in name]
    assert not {"tensocket_operators.functions", "tensocket_operators.tensor_methods._methods"}.intersection(loaded)


def test_functions_are_beside_the_modules_of_their_records() -> None:
    assert torch.det.__code__.co_filename.endswith("linalg/_functions.py")
    assert torch.add.__code__.co_filename.endswith("pointwise/_functions/arithmetic.py")
    assert torch.Tensor.add_.__code__.co_filename == torch.add.__code__.co_filename


def test_functions_have_the_documentation_of_their_records() -> None:
    for record in (*OPERATORS.values(), *COMPOSITES.values()):
        if record.function:
            assert inspect.getdoc(record.public) == inspect.cleandoc(record.doc)
    assert inspect.getdoc(torch.add) == inspect.getdoc(torch.Tensor.add) == "Sum: input + alpha * other."


@pytest.mark.parametrize("function", [torch.add, torch.Tensor.add_, torch.Tensor.__radd__, functions.relu_])
def test_pickles_name_no_family(function: Callable[..., Any]) -> None:
    text = pickle.dumps(function, 0)
    assert text.startswith(b"ctensocket_operators.functions\n")
    assert pickle.loads(text) is function
