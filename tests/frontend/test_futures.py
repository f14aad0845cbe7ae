"""Results that are set later, and functions that go on with them."""

from __future__ import annotations

import pickle
import threading

import pytest

from tensocket.errors import ArgumentError, CallbackError
from tensocket.futures import Future, collect_all, wait_all


def test_types_may_be_named():
    assert isinstance(Future[int](), Future)


def test_what_a_continuation_raises_is_the_cause():
    future = Future()
    after = future.then(lambda f: 1 // f.wait())
    future.set_result(0)
    with pytest.raises(CallbackError, match="Got the following error when running the callback: ZeroDivisionError: "
                                            "integer division") as caught:
        after.wait()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_future_has_one_result():
    future = Future()
    future.set_result(1)
    with pytest.raises(ArgumentError, match="Future can only be marked completed once"):
        future.set_result(2)
    with pytest.raises(RuntimeError, match="Future can only be marked completed once"):
        future.set_exception(ValueError())
    assert future.value() == 1


def test_futures_are_not_pickled():
    with pytest.raises(RuntimeError, match=r"Can not pickle torch\.futures\.Future"):
        pickle.dumps(Future())


def test_none_is_not_a_future():
    for function in (wait_all, collect_all):
        with pytest.raises(RuntimeError, match="Future can't be None"):
            function((None,))


def test_many_threads_complete_a_collection_once():
    futures = [Future() for _ in range(50)]
    together = collect_all(futures)
    threads = [threading.Thread(target=future.set_result, args=(k,)) for k, future in enumerate(futures)]
    for thread in threads:
        thread.start()
    assert [future.wait() for future in together.wait()] == list(range(50))
    for thread in threads:
        thread.join()
