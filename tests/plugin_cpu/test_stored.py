"""Programs that are stored by the nests that they follow from: reuse, and every way in which a file can be useless."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tensocket_cpu.code import stored
from tensocket_cpu.code.compiler import Compiler
from tensocket_cpu.code.executable import make_executable
from tensocket_cpu.code.stored import compile_stored, sources_text
from tensocket_cpu.threads.pool import ThreadPool
from tensocket_plugins.contract.dtypes import float32, int64
from tensocket_plugins.contract.plans import ProgramPlan
from tensocket_plugins.ir.digest import program_digest
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, call, loop
from tensocket_plugins.ir.pipeline import scheduled
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.ir.target import Target
from tensocket_plugins.kit.disk_cache import DiskCache

I, N = Var("i", int64), Var("n", int64)
TARGET = Target(kind="cpu")


def nest(factor=2.0):
    store = Store("out", I, call("exp", Load("in0", I, float32)) * factor)
    return Program("scale", (Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int64)),
                   (Kernel("scale", (loop(I, N, [store], LoopKind.PARALLEL),)),))


def run(compiler, factor=2.0, draft=False):
    """Compile, run, check the values against NumPy, and return whether the nest was scheduled."""
    calls = []

    def schedule():
        calls.append(factor)
        return scheduled(nest(factor), TARGET, Strategy.SERIAL)

    program, addresses, library = compile_stored(compiler, ProgramPlan(program_digest(nest(factor)), schedule, draft))
    x = np.linspace(-1, 1, 1000, dtype=np.float32)
    out = np.zeros_like(x)
    make_executable(program, addresses, library, ThreadPool(1))([out, x], [x.size], None)
    np.testing.assert_allclose(out, factor * np.exp(x.astype(np.float64)), 1e-6)
    return bool(calls), out


def test_a_second_process_neither_schedules_nor_prints(tmp_path, monkeypatch):
    assert run(Compiler(DiskCache(tmp_path)))[0]
    monkeypatch.setattr(stored, "printed", None)
    again = Compiler(DiskCache(tmp_path))
    assert not run(again)[0]
    assert (again.stats.kernels, again.stats.cache_hits) == (1, 1)


def test_other_nests_find_nothing(tmp_path):
    assert run(Compiler(DiskCache(tmp_path)), 2.0)[0]
    assert run(Compiler(DiskCache(tmp_path)), 3.0)[0]


@pytest.mark.parametrize("what", ["sources", "python", "passes"])
def test_other_versions_find_nothing(tmp_path, monkeypatch, what):
    assert run(Compiler(DiskCache(tmp_path)))[0]
    if what == "sources":
        monkeypatch.setattr(stored, "sources_text", lambda: "other sources")
    elif what == "python":
        monkeypatch.setattr(stored.sys, "version", "4.0")
    else:
        monkeypatch.setattr("tensocket_cpu.code.compiler._PASSES", "other passes")
    assert run(Compiler(DiskCache(tmp_path)))[0]


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-1], lambda data: b"something else",
                                    lambda data: data[:60] + bytes([data[60] ^ 1]) + data[61:]])
@pytest.mark.parametrize("which", [0, 1])
def test_damaged_files_are_replaced_with_one_warning(tmp_path, damage, which):
    run(Compiler(DiskCache(tmp_path)))
    file = sorted(tmp_path.iterdir(), key=lambda file: file.stat().st_size)[which]
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(RuntimeWarning, match="holds a damaged file") as seen:
        assert run(Compiler(DiskCache(tmp_path)))[0]
    assert len(seen) == 1
    assert not run(Compiler(DiskCache(tmp_path)))[0]


@pytest.mark.parametrize("payload", [b"no pickle", pickle.dumps(("no program", "code")), pickle.dumps(3),
                                     b"cno_module\nno_name\n."])
def test_files_of_something_else_are_replaced(tmp_path, payload):
    compiler = Compiler(DiskCache(tmp_path))
    key = compiler.key(program_digest(nest()), sources_text(), stored.sys.version, str(stored.POINTER_FIELD), "False")
    compiler.cache.put(key, payload)
    assert run(compiler)[0]
    assert not run(Compiler(DiskCache(tmp_path)))[0]


def test_missing_code_is_made_again(tmp_path):
    run(Compiler(DiskCache(tmp_path)))
    for file in tmp_path.iterdir():
        if b"ELF" in file.read_bytes():
            file.unlink()
    assert run(Compiler(DiskCache(tmp_path)))[0]
    assert not run(Compiler(DiskCache(tmp_path)))[0]


def test_without_a_directory_or_sources_nothing_is_stored(tmp_path, monkeypatch):
    assert run(Compiler(DiskCache(None)))[0]
    monkeypatch.setattr(stored, "_SOURCES", (tmp_path,))
    sources_text.cache_clear()
    try:
        assert sources_text() is None
        assert run(Compiler(DiskCache(tmp_path / "cache")))[0]
        assert run(Compiler(DiskCache(tmp_path / "cache")))[0]
    finally:
        sources_text.cache_clear()


def test_sources_tell_versions_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "_SOURCES", (tmp_path,))
    found = set()
    try:
        for text in ("x = 1\n", "x = 2\n"):
            (tmp_path / "module.py").write_text(text)
            sources_text.cache_clear()
            found.add(sources_text())
    finally:
        sources_text.cache_clear()
    assert len(found) == 2


def test_drafts_return_the_same_bits_and_have_files_of_their_own(tmp_path):
    made = [run(Compiler(DiskCache(tmp_path)), draft=draft) for draft in (True, False, True, False)]
    assert [scheduled for scheduled, _ in made] == [True, True, False, False]
    assert len({out.tobytes() for _, out in made}) == 1
    assert len(list(tmp_path.iterdir())) == 4


def test_targets_are_the_same_text_in_every_process():
    one, other = (Target(kind="cpu", native=frozenset(names)) for names in (("exp", "log"), ("log", "exp")))
    assert one.text == other.text
    assert "native=['exp', 'log']" in one.text
    assert Target(kind="cpu", float64=False).text != TARGET.text
