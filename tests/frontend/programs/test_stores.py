"""Tables of keys that processes share, in the only process."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tensocket import distributed as dist
from tensocket.errors import ProcessGroupError


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path):
    return {"hash": dist.HashStore, "file": lambda: dist.FileStore(str(tmp_path / "store"), 1),
            "tcp": lambda: dist.TCPStore("localhost", 0, 1, is_master=True),
            "prefix": lambda: dist.PrefixStore("a", dist.HashStore())}[request.param]()


def test_keys_are_set_and_read(store):
    store.set("x", "1")
    store.multi_set(["y", "z"], [b"2", "3"])
    assert store.get("x") == b"1"
    assert store.multi_get(["y", "z"]) == [b"2", b"3"]
    assert store.check(["x", "y"])
    assert not store.check(["x", "other"])
    assert store.num_keys() == 3
    assert store.delete_key("x")
    assert not store.delete_key("x")
    store.append("y", "5")
    assert store.get("y") == b"25"
    assert store.has_extended_api()


def test_counters_begin_at_zero(store):
    assert store.add("n", 2) == 2
    assert store.add("n", -5) == -3
    assert store.get("n") == b"-3"


def test_a_key_is_set_if_it_is_as_expected(store):
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "other", "second") == b"first"
    assert store.compare_set("k", "first", "second") == b"second"
    assert store.compare_set("new", "expected", "value") == b"expected"
    assert not store.check(["new"])


def test_reading_waits_for_other_threads(store):
    thread = threading.Timer(0.05, store.set, ("late", "here"))
    thread.start()
    assert store.get("late") == b"here"
    thread.join()


def test_waiting_ends(store):
    with pytest.raises(dist.DistStoreError, match=r"\[Store.wait\] keys \['.*never'\] — wait timeout after 10ms — set "
                       "them in another thread first"):
        store.wait(["never"], timedelta(milliseconds=10))
    store.set_timeout(timedelta(milliseconds=10))
    with pytest.raises(dist.DistError, match="wait timeout after 10ms"):
        store.wait(["never"])


def test_a_prefix_divides_a_table():
    whole = dist.HashStore()
    dist.PrefixStore("a", whole).set("x", "1")
    dist.PrefixStore("b", whole).set("x", "2")
    assert whole.get("a/x") == b"1"
    assert whole.get("b/x") == b"2"


@pytest.mark.parametrize(("make", "message"), [
    (lambda: dist.FileStore("name", 2), r"\[FileStore\] a world of 2 processes — programs run as 1 process — pass "
     "world_size=1, or exchange data through multiprocessing.Manager"),
    (lambda: dist.TCPStore("localhost", 29500, 2, True), r"\[TCPStore\] a world of 2 processes"),
    (lambda: dist.TCPStore("localhost", 29500), r"\[TCPStore\] the server localhost:29500 of another process — "
     "programs run as 1 process — pass is_master=True"),
])
def test_tables_of_several_processes_are_refused(make, message):
    with pytest.raises(ProcessGroupError, match=message):
        make()
