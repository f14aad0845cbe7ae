"""Every error message has a test: the rule of each error in the sources stands in a test file, word by word.

Both sides are read from the sources. Where a rule has parts that are computed, the rest of it stands in the test.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tensocket_plugins.contract import errors

#: Folder to the folders of tests in which its errors are tested.
AREAS = {
    "plugins": ("plugins", "ir", "operators", "conformance"),
    "core": ("core", "operators", "frontend", "paths"),
    "operators": ("operators", "frontend", "paths"),
    "compiler": ("compiler", "frontend"),
    "frontend": ("frontend", "paths", "compiler"),
    "plugin_cpu": ("plugin_cpu", "plugins"),
    "plugin_opencl": ("plugin_opencl", "plugins"),
    "plugin_cuda": ("plugin_cuda", "plugins"),
    "conformance": ("conformance",),
}
#: Folders whose functions take rules from those that call them.
BELOW = {"operators": ("core",)}
#: Rules whose text is another library's, or a caller's: file and expression, and the test that has such a text.
PASSED_ON = {
    ("tensocket_operators/interop/capsules.py", "str(error)"): "NumPy's words; test_dlpack.py",
}
CONTRACT = {name for name, kind in vars(errors).items()
            if isinstance(kind, type) and issubclass(kind, errors.TensocketError)}
#: Literal characters that a rule with computed parts has at least.
ENOUGH = 8

Scope = ast.FunctionDef | None


@dataclass(frozen=True)
class Rule:
    """The rule of an error that a source raises."""

    path: str
    line: int
    source: str
    pattern: str


def name_of(node: ast.expr) -> str:
    """Last part of a name."""
    return str(getattr(node, "id", getattr(node, "attr", "")))


def scoped(tree: ast.AST) -> Iterator[tuple[Scope, ast.AST]]:
    """All nodes, with the innermost function around each."""
    pending: list[tuple[Scope, ast.AST]] = [(None, tree)]
    while pending:
        scope, node = pending.pop()
        yield scope, node
        inner = node if isinstance(node, ast.FunctionDef) else scope
        pending += [(inner, child) for child in ast.iter_child_nodes(node)]


def pattern_of(rule: ast.expr) -> str:
    """A regular expression of the texts of an expression; empty where they cannot be told."""
    if isinstance(rule, ast.Constant) and isinstance(rule.value, str):
        return re.escape(rule.value)
    if isinstance(rule, ast.JoinedStr):
        literal = [str(part.value) if isinstance(part, ast.Constant) else None for part in rule.values]
        if sum(len(text or "") for text in literal) >= ENOUGH:
            return "".join(".+?" if text is None else re.escape(text) for text in literal)
    return ""


class Sources:
    """The modules of a package: path to source."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.calls: list[tuple[str, Scope, ast.Call]] = []
        self.raised: set[int] = set()
        self.functions: set[str] = set()
        self.kinds = set(CONTRACT)
        #: Calls, and return statements, by the name of the function.
        self.calls_of: dict[str, list[tuple[str, Scope, ast.Call]]] = defaultdict(list)
        self.returns_of: dict[str, list[tuple[str, Scope, ast.expr]]] = defaultdict(list)
        for path, source in sources.items():
            for scope, node in scoped(ast.parse(source)):
                self._note(path, scope, node)

    def _note(self, path: str, scope: Scope, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self.calls.append((path, scope, node))
            self.calls_of[name_of(node.func)].append((path, scope, node))
        elif isinstance(node, ast.Return) and scope and node.value:
            self.returns_of[scope.name].append((path, scope, node.value))
        elif isinstance(node, ast.Raise):
            self.raised.add(id(node.exc))
        elif isinstance(node, ast.FunctionDef):
            self.functions.add(node.name)
        elif isinstance(node, ast.ClassDef) and any(name_of(base) in self.kinds for base in node.bases):
            self.kinds.add(node.name)

    def rules(self) -> Iterator[Rule]:
        """The third argument of every call of an error class, or of a variable that holds one."""
        for path, scope, call in self.calls:
            name = name_of(call.func)
            variable = id(call) in self.raised and name not in self.functions
            if len(call.args) == 4 and (name in self.kinds or variable):
                yield from self._of(path, scope, call.args[2])

    def _of(self, path: str, scope: Scope, rule: ast.expr) -> Iterator[Rule]:
        if isinstance(rule, ast.IfExp):
            yield from self._of(path, scope, rule.body)
            yield from self._of(path, scope, rule.orelse)
        elif (isinstance(rule, ast.Attribute) and rule.attr == "rule") or (isinstance(rule, ast.Constant)
                                                                           and rule.value == ""):
            return  # of an error that was caught, and is raised with another operator; no rule is broken
        else:
            values = list(self._values(path, scope, rule))
            for place, where, value in values:
                yield from self._of(place, where, value)
            if not values:
                yield Rule(path, rule.lineno, ast.unparse(rule), pattern_of(rule))

    def _values(self, path: str, scope: Scope, rule: ast.expr) -> Iterator[tuple[str, Scope, ast.expr]]:
        """Yield a function's return values, or the values that its function or callers give to a variable."""
        if isinstance(rule, ast.Call):
            yield from self.returns_of[name_of(rule.func)]
        if not isinstance(rule, ast.Name) or scope is None:
            return
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and rule.id in map(name_of, node.targets):
                yield path, scope, node.value
        parameters = [a.arg for a in (*scope.args.posonlyargs, *scope.args.args) if a.arg not in ("self", "cls")]
        if rule.id not in parameters:
            return
        index = parameters.index(rule.id)
        for caller, where, call in self.calls_of[scope.name]:
            if caller == path or not scope.name.startswith("_"):
                named = [k.value for k in call.keywords if k.arg == rule.id]
                yield from ((caller, where, value) for value in named or call.args[index : index + 1])


@cache
def texts(source: str) -> str:
    """Return all string constants of a test but docstrings, as they are and without the escapes of ``match=``."""
    nodes = list(ast.walk(ast.parse(source)))
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found = [node.value for node in nodes
             if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose]
    found += ["".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
              for node in nodes if isinstance(node, ast.JoinedStr)]
    return "\n".join([*found, *(re.sub(r"\\(\W)", r"\1", text) for text in found if "\\" in text)])


def untested(sources: dict[str, str], tests: list[str]) -> list[str]:
    """The rules that stand in no test."""
    whole = "\n".join(map(texts, tests))
    return [f"{rule.path}:{rule.line}: {rule.source}" for rule in Sources(sources).rules()
            if (rule.path, rule.source) not in PASSED_ON and not (rule.pattern and _stands(rule.pattern, whole))]


def _stands(pattern: str, text: str) -> bool:
    """Whether a pattern occurs in a text; most of them have no computed parts, and are looked up as they are."""
    return bool(re.search(pattern, text)) if ".+?" in pattern else re.sub(r"\\(.)", r"\1", pattern) in text


def sources_of(distributions: dict, *folders: str) -> dict[str, str]:
    packages = [distributions[folder].package for folder in folders]
    return {str(path.relative_to(package.parent)): path.read_text("utf-8")
            for package in packages for path in sorted(package.rglob("*.py"))}


@pytest.mark.parametrize("folder", sorted(AREAS))
def test_every_rule_is_broken_by_a_test(folder: str, root: Path, distributions: dict) -> None:
    sources = sources_of(distributions, folder, *BELOW.get(folder, ()))
    folders = [root / "tests" / area for area in AREAS[folder]]
    tests = [path.read_text("utf-8") for area in folders for path in sorted(area.rglob("*.py"))]
    assert untested(sources, tests) == []


def test_every_folder_is_read(distributions: dict) -> None:
    assert set(AREAS) == set(distributions)


def test_exceptions_are_still_there(distributions: dict) -> None:
    sources = sources_of(distributions, "core", "operators")
    found = {(rule.path, rule.source) for rule in Sources(sources).rules()}
    assert len(found) > 300
    assert PASSED_ON.keys() <= found


RAISED = "def f(x):\n    raise ShapeError('f', f'{x}', 'the shape is {short}', 'reshape it')\n"


@pytest.mark.parametrize(("source", "test"), [
    (RAISED, "with raises(match='the shape is {short}'): pass"),
    (RAISED, r"with raises(match=r'the\ shape\ is\ \{short\}'): pass"),
    ("raise ShapeError('f', '', f'{n} sizes are given', '')", "match = '[f] 3 — 3 sizes are given — '"),
    ("class Own(ShapeError): pass\nOwn('f', '', 'a rule', '')", "x = 'a rule'"),
    ("raise kind('f', '', 'a rule' if x else 'another', '')", "x = 'a rule', 'another'"),
    ("def fail(operator, text):\n    return ShapeError(operator, '', text, '')\nfail('f', 'a rule')", "x = 'a rule'"),
    ("def f():\n    fault = 'a rule'\n    raise ShapeError('f', '', fault, '')", "x = 'a rule'"),
    ("def fault():\n    return 'a rule' if x else ''\nraise ShapeError('f', '', fault(), '')", "x = 'a rule'"),
    ("raise ShapeError('f', '', caught.rule, '')", ""),
])
def test_a_rule_that_is_tested(source: str, test: str) -> None:
    assert untested({"m.py": source}, [test]) == []


@pytest.mark.parametrize(("source", "test"), [
    (RAISED, ""), (RAISED, "'''the shape is {short}'''"), (RAISED, "x = 'the shape is'"),
    ("raise ShapeError('f', '', f'{n} sizes are given', '')", "x = 'sizes are given'"),
    ("raise ShapeError('f', '', f'{n} is', '')", "x = '3 is'"),
    ("class Own(ShapeError): pass\nOwn('f', '', 'a rule', '')", "x = 'another'"),
    ("raise kind('f', '', 'a rule' if x else 'another', '')", "x = 'a rule'"),
    ("def fail(operator, text):\n    return ShapeError(operator, '', text, '')\nfail('f', text='a rule')", "x = 1"),
    ("def f():\n    fault = 'a rule'\n    raise ShapeError('f', '', fault, '')", ""),
    ("def fault():\n    return 'a rule' if x else ''\nraise ShapeError('f', '', fault(), '')", "x = ''"),
    ("raise ShapeError('f', '', str(error), '')", "x = 'str(error)'"),
])
def test_a_rule_that_is_not_tested_is_seen(source: str, test: str) -> None:
    assert len(untested({"m.py": source}, [test])) == 1
