"""The cost of ``import tensocket``: which modules it loads, and that those loaded later are as good as loaded."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys

import pytest

import tensocket as torch
from tensocket.namespace import later

#: Modules and packages that a program should not load before it uses them.
HEAVY = {
    "importlib.metadata", "pluggy", "email", "logging", "secrets", "subprocess", "multiprocessing", "unittest",
    "concurrent", "scipy", "llvmlite", "tensocket_compiler", "tensocket_cpu", "tensocket_plugins.contract.hooks",
    "tensocket_plugins.contract.plans", "tensocket_plugins.ir.nodes", "tensocket_plugins.ir.schedule",
    "tensocket_plugins.ir.build.math", "tensocket_plugins.ir.build.nest", "tensocket_plugins.kit.plans",
    "tensocket.nn", "tensocket.optim", "tensocket.utils", "tensocket.amp", "tensocket.serialization", "tensocket.fx",
    "tensocket.distributions",
}


def _run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.fixture(scope="module")
def loaded():
    """Return the modules that the import loads besides those of NumPy."""
    code = "import sys, numpy; before = set(sys.modules); import tensocket; print(*(set(sys.modules) - before))"
    return set(_run(code))


def test_the_import_loads_few_modules(loaded):
    assert len(loaded) < 450  # 419 when the limit was set; each takes about 0.2 milliseconds


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_the_import_pauses_the_garbage_collector(before):
    code = (f"import gc; gc.{before}(); full = []\n"
            "gc.callbacks.append(lambda phase, info: full.append(phase) if info['generation'] == 2 else None)\n"
            "import tensocket\nprint(gc.isenabled(), len(full))")
    assert _run(code) == [str(before == "enable"), "0"]


def test_the_import_loads_no_heavy_module(loaded):
    assert not {name for name in loaded if name in HEAVY or name.split(".")[0] in HEAVY}


def test_the_import_loads_no_module_of_kernels(loaded):
    assert not {name for name in loaded if name.endswith(("_kernel", "_kernel_cpu", "_nest", "nest_cpu"))
                and name != "tensocket_operators.kinds.multi_kernel"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each module is imported first in a copy of one process")
def test_modules_are_attributes_before_their_import():
    # An import of as_torch has effects; Python's own syntax takes the name __future__.
    names = sorted(later.MODULES - {"as_torch", "__future__"})
    code = (f"import os, sys, tensocket\nfor name in {names}:\n    child = os.fork()\n    if not child:\n"
            "        os._exit(getattr(tensocket, name) is not sys.modules['tensocket.' + name])\n"
            "    if os.waitpid(child, 0)[1]: print(name)")
    assert _run(code) == []


def test_the_list_of_modules_is_the_folder():
    modules = {module.name for module in pkgutil.iter_modules(torch.__path__)}
    assert modules - {"__main__", "cli", "namespace", "notices"} == later.MODULES


@pytest.mark.parametrize("name", ["namespace.legacy", "namespace.private"])
def test_the_list_of_names_has_those_of_modules_that_serve_nothing_else(name):
    listed = {key for key, module in later.SOURCES.items() if module == name}
    assert listed == set(importlib.import_module(f"tensocket.{name}").__all__)


def test_names_are_those_of_their_modules():
    for name in later.SOURCES:
        assert getattr(torch, name) is not None
    assert torch.save is torch.serialization.save
    assert torch.autocast is torch.amp.autocast_mode.autocast
    assert torch.set_anomaly_enabled is torch.autograd.set_detect_anomaly


def test_listed_names_exist():
    assert {*later.MODULES, *later.SOURCES, "add", "Tensor", "__version__"} <= set(dir(torch))
    assert not [name for name in torch.__all__ if not hasattr(torch, name)]


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'tensocket' has no attribute 'missing'"):
        _ = torch.missing
    with pytest.raises(AttributeError, match="has no attribute '_foreach_missing'"):
        _ = torch._foreach_missing


def test_a_pickle_of_a_former_path_needs_no_other_import():
    pickled = b"ctensocket.nn.modules.rectifiers\nLeakyReLU\n."
    code = f"import pickle, tensocket; print(pickle.loads({pickled!r}).__module__)"
    assert _run(code) == ["tensocket.nn.modules.layers.rectifiers"]


def test_stand_ins_list_and_load_their_module():
    code = ("import sys; from tensocket_operators.indexing import kernel; name = kernel.__name__; "
            "print(name in sys.modules, 'gather_arrays' in dir(kernel), name in sys.modules, "
            "kernel.gather_arrays is sys.modules[name].gather_arrays)")
    assert _run(code) == ["False", "True", "True", "True"]


def test_stand_ins_of_unknown_names_are_attribute_errors():
    import tensocket_operators.indexing as package

    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = package.missing
