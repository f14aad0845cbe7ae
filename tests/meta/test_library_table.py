"""The table of libraries: programs run until they pass, and the page has a line for each."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest


@pytest.fixture
def tool(root, tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("library_table_under_test", root / "tools" / "library_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- uses -->\nold\n<!-- end of uses -->\nafter\n", "utf-8")
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(module, "USES", {"good": module.Use("pytest", "adds"), "bad": module.Use("no-such", "fails")})
    return module


def test_page_has_a_line_for_each_program(tool, tmp_path):
    (tmp_path / "use_good.py").write_text("import torch\nassert torch.ones(2).sum() == 2\nprint('USE OK')\n", "utf-8")
    (tmp_path / "use_bad.py").write_text("print('USE OK')\nraise SystemExit(3)\n", "utf-8")
    results = tmp_path / "results.json"
    assert tool.main([str(tmp_path), "--devices", "cpu", "--results", str(results)]) == 0
    assert json.loads(results.read_text("utf-8")) == {"cpu": {"good": True, "bad": False}}
    page = tool.PAGE.read_text("utf-8")
    assert page.startswith("before\n<!-- uses -->\n| Library |")
    assert page.endswith("<!-- end of uses -->\nafter\n")
    assert f"| pytest | {pytest.__version__} | adds | passes |" in page
    assert "| no-such | not installed | fails | fails |" in page
    assert "Passed: 1 of 2 on `cpu`." in page


def test_programs_that_passed_do_not_run_again(tool, tmp_path):
    (tmp_path / "use_good.py").write_text("raise SystemExit(3)\n", "utf-8")
    results = tmp_path / "results.json"
    results.write_text('{"cpu": {"good": true}}', "utf-8")
    tool.main([str(tmp_path), "--devices", "cpu", "--results", str(results), "--python", sys.executable])
    assert "| adds | passes |" in tool.PAGE.read_text("utf-8")


def test_page_of_this_repository_has_all_programs(root):
    spec = importlib.util.spec_from_file_location("library_table_as_is", root / "tools" / "library_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    own = module.PAGE.read_text("utf-8").partition("<!-- end of uses -->")[0]
    rows = re.findall(r"^\| ([\w-]+) \|", own, re.MULTILINE)
    assert rows[1:] == [use.distribution for use in module.USES.values()]


OUTCOMES = {"one": [["a", "passed"], ["b", "failed"], ["c", "failed"], ["d", "skipped"], ["e", "failed"]],
            "one.pytorch": [["b", "passed"], ["c", "failed"]], "two": [["a", "passed"]]}


def test_tests_count_where_they_pass_on_pytorch(root, tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("library_tests_under_test", root / "tools" / "library_tests.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    module.PAGE.write_text("before\n<!-- tests -->\nold\n<!-- end of tests -->\nafter\n", "utf-8")
    for name, lines in OUTCOMES.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert module.main([str(tmp_path)]) == 0
    page = module.PAGE.read_text("utf-8")
    assert page.startswith("before\n<!-- tests -->\n| Library |")
    assert page.endswith("<!-- end of tests -->\nafter\n")
    # b passes there, e did not run there
    assert "| one | 1 | 3 (33.3 %) |\n| two | 1 | 1 (100.0 %) |\n| all | 2 | 4 (50.0 %) |" in page


@pytest.mark.parametrize(("chosen", "names"), [
    ({}, ["test_fails", "test_passes", "test_skipped", "test_surprises"]), ({"SAMPLE": "2"}, None),
    ({"TESTS": "tests"}, ["test_passes"])])
def test_outcomes_are_written(root, tmp_path, chosen, names):
    (tmp_path / "test_it.py").write_text(
        "import pytest\ndef test_passes(): pass\ndef test_fails(): assert 0\n"
        "@pytest.mark.skip\ndef test_skipped(): pass\n@pytest.mark.xfail\ndef test_surprises(): assert 0\n", "utf-8")
    (tmp_path / "tests").write_text("test_it.py::test_passes\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_outcomes", "-p", "no:cacheprovider"]
    subprocess.run(command, cwd=tmp_path,
                   check=False, capture_output=True,
                   env={**os.environ, "PYTHONPATH": str(root / "tools"), "OUTCOMES": "out.jsonl", **chosen})
    found = dict(json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines())
    assert len(found) == (2 if names is None else len(names))
    expected = {"test_it.py::test_passes": "passed", "test_it.py::test_fails": "failed",
                "test_it.py::test_skipped": "skipped", "test_it.py::test_surprises": "expected failure"}
    assert found == {name: expected[name] for name in found}
    assert names is None or sorted(name.partition("::")[2] for name in found) == names
