"""The package that ``tensocket new-backend`` writes."""

from __future__ import annotations

import py_compile
import tomllib
from pathlib import Path

import pytest

from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError
from tensocket_plugins.kit.scaffold import write_backend

EXAMPLE = Path(__file__).parents[2] / "examples" / "backend_example"


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*")
            if path.is_file() and not {"__pycache__", ".pytest_cache"} & set(path.parts)}


def test_the_example_is_what_is_written(tmp_path):
    assert files_of(write_backend("toy", tmp_path)) == files_of(EXAMPLE)


def test_names_go_where_they_belong(tmp_path):
    folder = write_backend("my_chip2", tmp_path / "not" / "there" / "yet")
    assert folder.name == "tensocket-my-chip2"
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == "tensocket-my-chip2"
    assert project["entry-points"]["tensocket.backends"] == {"my_chip2": "tensocket_my_chip2"}
    assert "class MyChip2Device" in (folder / "tensocket_my_chip2" / "backend.py").read_text("utf-8")
    assert not any("{{" in text or "toy" in text for text in files_of(folder).values())


def test_the_written_modules_compile(tmp_path):
    for path in write_backend("toy", tmp_path).rglob("*.py"):
        py_compile.compile(str(path), cfile=str(tmp_path / "compiled"), doraise=True)


def test_it_is_short(tmp_path):
    folder = write_backend("toy", tmp_path)
    assert sum(len(path.read_text("utf-8").splitlines()) for path in (folder / "tensocket_toy").glob("*.py")) < 300


@pytest.mark.parametrize(("name", "rule"), [
    ("", "is not a device name"),
    ("My", "'My' is not a device name: a lower-case letter, then 1 to 31 lower-case letters, digits or '_' "
           "are required"),
    ("a", "is not a device name"),
    ("x" * 33, "is not a device name"),
    ("../evil", "is not a device name"),
    ("na-me", "is not a device name"),
    ("cpu", "the name 'cpu' is taken by tensocket"),
    ("cuda0", "the name 'cuda0' can be mistaken for a device of the backend 'cuda'"),
    ("meta", "the name 'meta' is reserved for the runtime itself"),
    ("while", "'while' is a word of the Python language"),
])
def test_bad_names(tmp_path, name, rule):
    with pytest.raises(ArgumentError, match=rule):
        write_backend(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_a_string(tmp_path):
    with pytest.raises(ArgumentTypeError, match=r"\[new-backend\] int 3 — a device is named by a string"):
        write_backend(3, tmp_path)


def test_an_existing_folder_is_left_alone(tmp_path):
    folder = tmp_path / "tensocket-toy"
    folder.mkdir()
    (folder / "work.txt").write_text("mine")
    with pytest.raises(ArgumentError, match="a new backend is written into a new folder"):
        write_backend("toy", tmp_path)
    assert files_of(folder) == {"work.txt": "mine"}
