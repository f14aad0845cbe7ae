"""Object code on disk: reuse over processes' lifetimes, and every way in which a cache can be useless."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

from tensocket_cpu.code.compiler import Compiler
from tensocket_cpu.code.executable import make_executable
from tensocket_cpu.threads.pool import ThreadPool
from tensocket_plugins.contract.dtypes import float32, int32
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, call, loop
from tensocket_plugins.kit.disk_cache import DiskCache, default_directory

I, N = Var("i", int32), Var("n", int32)


def scale(factor):
    value = call("exp", Load("in0", I, float32)) * factor
    store = Store("out", I, value)
    return Program("scale", (Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int32)),
                   (Kernel("scale", (loop(I, N, [store], LoopKind.PARALLEL),)),))


def works(compiler, factor=2.0):
    program = scale(factor)
    addresses, library = compiler.compile(program)
    out = np.zeros(5, np.float32)
    make_executable(program, addresses, library, ThreadPool(1))([out, np.zeros(5, np.float32)], [5], None)
    return out.tolist() == [factor] * 5


def test_second_time_comes_from_the_disk(tmp_path):
    first = Compiler(DiskCache(tmp_path / "new" / "folder"))
    assert works(first)
    assert (first.stats.kernels, first.stats.cache_hits) == (1, 0)
    assert first.stats.seconds > 0
    assert len(list((tmp_path / "new" / "folder").iterdir())) == 1
    second = Compiler(DiskCache(tmp_path / "new" / "folder"))
    assert works(second)
    assert (second.stats.kernels, second.stats.cache_hits) == (1, 1)
    assert works(second, 3.0)
    assert (second.stats.kernels, second.stats.cache_hits) == (2, 1)


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-1], lambda data: b"something else",
                                    lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:]])
def test_damaged_files_are_replaced_with_one_warning(tmp_path, damage):
    assert works(Compiler(DiskCache(tmp_path)))
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    again = Compiler(DiskCache(tmp_path))
    with pytest.warns(RuntimeWarning, match="holds a damaged file") as seen:
        assert works(again)
    assert len(seen) == 1
    healed = Compiler(DiskCache(tmp_path))
    assert works(healed)
    assert healed.stats.cache_hits == 1


def test_unwritable_cache_warns_once(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    compiler = Compiler(DiskCache(tmp_path / "file" / "below"))
    with pytest.warns(RuntimeWarning, match="cannot be (read|written)") as seen:
        assert [works(compiler, factor) for factor in (2.0, 3.0)] == [True, True]
    assert len(seen) == 1


def test_no_cache_at_all(tmp_path):
    cache = DiskCache(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert works(Compiler(cache))
    assert cache.get("anything") is None


def test_keys_depend_on_every_part_and_on_their_borders():
    keys = {DiskCache.key(*parts) for parts in [("a", "b"), ("ab", ""), ("", "ab"), ("a", "b", ""), ("b", "a")]}
    assert len(keys) == 5


def test_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        DiskCache(tmp_path).put("key", b"data")
    assert list(tmp_path.iterdir()) == []


def test_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("TENSOCKET_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory("cpu") == tmp_path / "tensocket" / "cpu"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory("cpu") == tmp_path / ".cache" / "tensocket" / "cpu"
    monkeypatch.setenv("TENSOCKET_CACHE_DIR", str(tmp_path / "mine"))
    assert default_directory("cpu") == tmp_path / "mine" / "cpu"
    monkeypatch.setenv("TENSOCKET_CACHE_DIR", "")
    assert default_directory("cpu") is None
