"""The table of libraries: programs run until they pass, and the page has a line for each."""

from __future__ import annotations

import importlib.util
import json
import re
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
    rows = re.findall(r"^\| ([\w-]+) \|", module.PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows[1:] == [use.distribution for use in module.USES.values()]
