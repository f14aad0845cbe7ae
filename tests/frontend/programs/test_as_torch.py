"""Programs that import torch run unmodified: what the name means, and which device answers for cuda."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import textwrap

import pytest

import tensocket
from tensocket import as_torch
from tensocket.version import PYTORCH


@pytest.fixture
def installed():
    as_torch.install()
    yield
    as_torch.uninstall()


def run(tmp_path, program, *options, arguments=(), **environment):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "tensocket.as_torch", *options, str(file), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_form_of_import_gives_the_same_modules(installed):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    import torch.optim.lr_scheduler
    from torch import Tensor, optim
    from torch.nn import Parameter
    from torch.utils.data import DataLoader

    assert torch is tensocket
    assert nn is tensocket.nn
    assert F is tensocket.nn.functional
    assert torch.optim.lr_scheduler is tensocket.optim.lr_scheduler
    assert (Tensor, optim, Parameter) == (tensocket.Tensor, tensocket.optim, tensocket.nn.Parameter)
    assert DataLoader is tensocket.utils.data.DataLoader
    assert torch.nn.__spec__.name == "tensocket.nn"
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'torch\.nothing'"):
        import torch.nothing


def test_the_name_ends_with_uninstall():
    as_torch.install()
    as_torch.uninstall()
    assert "torch" not in sys.modules
    assert not [name for name in sys.modules if name.startswith("torch.")]


def test_texts_name_torch(installed):
    x = tensocket.ones(2)
    assert str(x.dtype) == "torch.float32"
    assert x.type() == "torch.FloatTensor"
    assert repr(x.shape) == "torch.Size([2])"
    assert tensocket.__version__ == f"{tensocket.version.PYTORCH}+tensocket.{tensocket.version.OWN}"


def test_texts_name_tensocket_otherwise():
    assert str(tensocket.float32) == "tensocket.float32"
    assert tensocket.__version__ == tensocket.version.OWN


def test_versions_compare_as_versions(installed):
    from importlib.metadata import version

    assert tensocket.__version__ >= "1.10"
    assert not tensocket.__version__ < "2.2"
    assert tensocket.__version__ >= (2, 0)
    assert tensocket.__version__ != "2.13.0"
    assert version("torch") == tensocket.__version__
    assert version("numpy")


def test_classes_in_pickles_are_found_by_torch_names(installed):
    named = b"ctorch.nn.modules.linear\nLinear\n."
    assert pickle.loads(named) is tensocket.nn.Linear
    assert pickle.loads(b"ctorch\nfloat32\n.") is tensocket.float32


def test_another_torch_is_not_replaced(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", textwrap)
    with pytest.raises(tensocket.errors.ArgumentError, match="there is one module torch"):
        as_torch.install()


def test_a_script_gets_its_arguments_and_stays_the_main_module(tmp_path):
    (tmp_path / "helper.py").write_text("from torch import nn\nclass Net(nn.Linear): pass\n")
    printed = run(tmp_path, """
        import json, pickle, sys, torch, helper
        class Here: pass
        assert pickle.loads(pickle.dumps(Here())).__class__ is Here
        net = helper.Net(2, 1)
        print(json.dumps([sys.argv[1:], __name__, torch.cuda.is_available(), torch.accelerator.is_available(),
                          type(net).__mro__[1].__name__]))
        """, arguments=["--device", "b"])
    cuda = tensocket.is_available("cuda")
    assert json.loads(printed) == [["--device", "b"], "__main__", cuda, cuda, "Linear"]


def test_a_device_answers_for_cuda(tmp_path):
    printed = run(tmp_path, """
        import json, torch
        from multiprocessing import get_context
        def child(queue):
            queue.put([torch.cuda.is_available(), torch.cuda.get_device_name()])
        if __name__ == "__main__":
            x = torch.ones(3, device="cuda:0")
            queue = get_context("spawn").Queue()
            process = get_context("spawn").Process(target=child, args=(queue,))
            process.start()
            of_child = queue.get(timeout=60)
            process.join()
            print(json.dumps([torch.cuda.is_available(), torch.cuda.device_count(), str(x.device), x.is_cuda, x.type(),
                              x.cuda().sum().item(), str(torch.zeros(1).device), str(torch.device("ref:1")),
                              str(torch.accelerator.current_accelerator()), of_child]))
        """, "--device", "ref")
    assert json.loads(printed) == [True, 2, "cuda:0", True, "torch.cuda.FloatTensor", 3.0, "cpu", "cuda:1", "cuda",
                                   [True, "Reference interpreter"]]


def test_the_environment_names_the_device_and_an_index_makes_it_current(tmp_path):
    printed = run(tmp_path, """
        import torch
        print(torch.cuda.current_device(), torch.ones(1).cuda().device, torch.ones(1).device)
        """, TENSOCKET_DEVICE="ref:1")
    assert printed.split() == ["1", "cuda:1", "cpu"]


ALIASED = """
import importlib, pkgutil, sys
import tensocket
for module in pkgutil.walk_packages(tensocket.__path__, "tensocket."):
    importlib.import_module(module.name)
for name in [name for name in sys.modules if name == "tensocket" or name.startswith("tensocket.")]:
    sys.modules["torch" + name.removeprefix("tensocket")] = sys.modules[name]
import numpy, torch
"""


def aliased(program, device):
    """Return the lines that a program prints if a harness gives it this package as ``torch``, without ``as_torch``."""
    done = subprocess.run([sys.executable, "-c", ALIASED + textwrap.dedent(program)], capture_output=True, text=True,
                          env={**os.environ, "TENSOCKET_DEVICE": device})
    return done.stdout.split("\n") if done.returncode == 0 else done.stderr


def test_the_environment_means_the_same_to_a_process_with_another_alias():
    printed = aliased("""
        print((torch.from_numpy(numpy.ones(2)) + torch.zeros(2)).device, torch.Tensor([1.0]).device)
        print(torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device())
        print(torch.ones(1, device="cuda").device, torch.accelerator.current_accelerator(), torch.device("ref:0"))
        """, "ref:1")
    assert printed[:3] == ["cpu cpu", "True 2 1", "cuda:1 cuda cuda:0"]


@pytest.mark.parametrize("first", ["torch.ones(1)", "torch.cuda.is_available()"])
def test_another_alias_with_a_device_that_is_not_there(first):
    assert "no installed backend has this name" in aliased(first, "nothing")


def test_the_host_can_answer_and_keeps_its_name(tmp_path):
    printed = run(tmp_path, """
        import torch
        print(torch.cuda.is_available(), torch.ones(1, device="cuda:0").device, torch.device("cuda:0"),
              torch.cuda.current_device(), torch.accelerator.is_available())
        """, "--device", "cpu")
    assert printed.split() == ["True", "cpu", "cpu:0", "0", "False"]


def test_modules_code_and_folders_run_too(tmp_path, monkeypatch):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "__main__.py").write_text("import sys, torch\nprint(torch.__name__, sys.argv[1:])\n")
    for arguments in (["-m", "package", "1"], ["package", "1"],
                      ["-c", "import sys, torch; print(torch.__name__, sys.argv[1:])", "1"]):
        done = subprocess.run([sys.executable, "-m", "tensocket.as_torch", *arguments], capture_output=True, text=True,
                              cwd=tmp_path, check=True)
        assert done.stdout.strip() == "torch ['1']"


@pytest.mark.parametrize(("options", "message"), [
    (["--device", "nothing", "x.py"], "no installed backend has this name"), (["absent.py"], "no file 'absent.py'")])
def test_what_cannot_be_followed_is_said(options, message, capsys):
    try:
        code = as_torch.main(options)
    except SystemExit as stopped:
        code = stopped.code
    finally:
        as_torch.uninstall()
    assert code == 2
    assert message in capsys.readouterr().err


def test_programs_that_a_program_starts_find_this_package(tmp_path):
    (tmp_path / "started.py").write_text(
        "import importlib.metadata as m\nbefore = m.version('torch')\nimport torch.nn\n"
        "print(before, torch.__name__, torch.nn.ReLU()(torch.ones(1)).tolist(), "
        "m.version('torch') == torch.__version__)")
    printed = run(tmp_path, """
        import subprocess, sys
        subprocess.run([sys.executable, "started.py"], check=True)
        """)
    assert printed.split(maxsplit=1) == [PYTORCH, "torch [1.0] True\n"]


def test_the_path_for_other_programs_is_restored(monkeypatch):
    given = os.pathsep.join(["", "somewhere"])  # an empty entry is the current folder
    monkeypatch.setenv("PYTHONPATH", given)
    as_torch.install()
    try:
        assert os.environ["PYTHONPATH"] == os.pathsep.join([as_torch._ENTRANCE, given])
    finally:
        as_torch.uninstall()
    assert os.environ["PYTHONPATH"] == given
    monkeypatch.delenv("PYTHONPATH")
    as_torch.install()
    as_torch.uninstall()
    assert "PYTHONPATH" not in os.environ
