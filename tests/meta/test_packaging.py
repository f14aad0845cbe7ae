"""The distributions fit together: versions, pins, entry points, and wheels that hold every module."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import subprocess
import sys

from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

VERSION = "0.1.0"
MINOR_PIN = ">=0.1,<0.2"

ENTRY_POINTS = {
    ("plugins", "tensocket.backends", "ref", "tensocket_plugins.kit.ref"),
    ("plugin_cpu", "tensocket.backends", "cpu", "tensocket_cpu"),
    ("plugin_opencl", "tensocket.backends", "opencl", "tensocket_opencl"),
    ("plugin_cuda", "tensocket.backends", "cuda", "tensocket_cuda"),
    ("conformance", "tensocket.commands", "conformance", "tensocket_conformance.cli:main"),
    ("conformance", "pytest11", "tensocket_conformance", "tensocket_conformance.plugin"),
}
NAMES = {
    "plugins": "tensocket-plugins", "core": "tensocket-core", "operators": "tensocket-operators",
    "compiler": "tensocket-compiler", "frontend": "tensocket", "plugin_cpu": "tensocket-cpu",
    "plugin_opencl": "tensocket-opencl", "plugin_cuda": "tensocket-cuda", "conformance": "tensocket-conformance",
}


def _own_requirements(project):
    """Requirements of a distribution on distributions of this workspace, as (name, specifier)."""
    lines = [*project["dependencies"], *(spec for extra in project.get("optional-dependencies", {}).values()
                                         for spec in extra)]
    split = [re.match(r"([A-Za-z0-9-]+)(?:\[[^]]*\])?\s*([^;]*)", line) for line in lines]
    return [(match[1], match[2].strip()) for match in split if match is not None and match[1] in NAMES.values()]


def _version_attribute(package):
    for file in ("__init__.py", "version.py"):  # the front end's depends on what a program calls the package
        for node in ast.parse((package / file).read_text("utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(getattr(target, "id", None) in ("__version__", "OWN") for target in targets):
                return ast.literal_eval(node.value)
    return None


def test_names(distributions):
    assert {folder: item.project["name"] for folder, item in distributions.items()} == NAMES


def test_versions_are_equal(workspace, distributions):
    versions = {folder: item.project["version"] for folder, item in distributions.items()}
    assert {*versions.values(), workspace["project"]["version"]} == {VERSION}, versions


def test_packages_know_their_version(distributions):
    found = {folder: _version_attribute(item.package) for folder, item in distributions.items()}
    assert set(found.values()) == {VERSION}, found


def test_minor_versions_are_pinned(distributions):
    pins = {(folder, name): spec for folder, item in distributions.items()
            for name, spec in _own_requirements(item.project)}
    assert set(pins.values()) == {MINOR_PIN}, pins
    assert {name for folder, name in pins if folder == "frontend"} == {
        "tensocket-compiler", "tensocket-core", "tensocket-cpu", "tensocket-operators", "tensocket-plugins"}
    assert {name for folder, name in pins if folder.startswith("plugin_")} == {"tensocket-plugins"}


def test_one_python_and_one_licence(workspace, distributions):
    projects = [workspace["project"], *(item.project for item in distributions.values())]
    assert {project["requires-python"] for project in projects} == {">=3.11"}
    assert {project["license"] for project in projects} == {"Apache-2.0"}


def test_folders_are_complete(distributions):
    for item in distributions.values():
        assert (item.package / "py.typed").exists(), item.package
        assert (item.folder / "README.md").exists(), item.folder
        assert item.project["readme"] == "README.md"


def test_entry_points_are_declared(distributions):
    declared = {(folder, group, name, value) for folder, item in distributions.items()
                for group, table in item.project.get("entry-points", {}).items() for name, value in table.items()}
    assert declared == ENTRY_POINTS
    assert distributions["frontend"].project["scripts"] == {"tensocket": "tensocket.cli:main"}


def test_entry_points_are_installed():
    for folder, group, name, value in ENTRY_POINTS:
        (found,) = importlib.metadata.entry_points(group=group, name=name)
        assert found.value == value
        assert found.dist is not None
        assert found.dist.name == NAMES[folder]


def test_entry_points_exist(distributions):
    values = [value for _, _, _, value in ENTRY_POINTS] + ["tensocket.cli:main"]
    folders = {item.package.name: item.folder for item in distributions.values()}
    for value in values:
        module, _, attribute = value.partition(":")
        path = folders[module.partition(".")[0]].joinpath(*module.split("."))
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        tree = ast.parse(source.read_text("utf-8"))
        defined = {getattr(node, "name", None) for node in tree.body}
        assert not attribute or attribute in defined, value


def test_root_installs_the_whole_workspace(root, workspace, distributions):
    assert workspace["project"]["dynamic"] == ["dependencies"]
    metadata = ProjectMetadata(str(root), PluginManager())
    assert sorted(metadata.core.dependencies) == sorted(
        f"{NAMES[folder]} @ {item.folder.as_uri()}" for folder, item in distributions.items())


def test_wheels_hold_every_module(root, distributions, tmp_path):
    """Wheels that pip installs from the folders hold all of the folders' modules, and work without the checkout."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--no-build-isolation", "--no-compile", "--target", str(tmp_path)]
    subprocess.run([*command, *(str(item.folder) for item in distributions.values())], check=True, cwd=tmp_path)
    for item in distributions.values():
        wanted = {path.relative_to(item.folder) for path in item.package.rglob("*")
                  if path.is_file() and "__pycache__" not in path.parts}
        installed = tmp_path / item.package.name
        assert {path.relative_to(tmp_path) for path in installed.rglob("*") if path.is_file()} == wanted
    code = ("import tensocket as t; x = t.tensor([1., 2.], device='cpu', requires_grad=True); (x * x).sum().backward();"
            "print(t.__file__, x.grad.tolist())")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.stdout.split(None, 1) == [str(tmp_path / "tensocket" / "__init__.py"), "[2.0, 4.0]\n"]
