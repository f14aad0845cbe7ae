"""Chains of steps over the elements of a data set."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket.errors import ArgumentError
from tensocket.utils.data import DataLoader, IterDataPipe, MapDataPipe, functional_datapipe, graph_settings
from tensocket.utils.data.datapipes import iter as steps
from tensocket.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe


def numbers(count=7):
    return steps.IterableWrapper(range(count))


def test_steps_follow_each_other():
    chain = numbers().map(lambda x: x * x).filter(lambda x: x % 2 == 0).batch(3)
    assert list(chain) == [[0, 4, 16], [36]] == list(chain)
    assert list(numbers().batch(3, drop_last=True)) == [[0, 1, 2], [3, 4, 5]]
    assert [len(numbers().batch(3)), len(numbers().batch(3, drop_last=True)), len(numbers().map(str))] == [3, 2, 7]
    assert list(numbers(4).batch(2).unbatch()) == [0, 1, 2, 3]
    assert list(steps.UnBatcher([[[1], [2, 3]], 4], -1)) == [1, 2, 3, 4]
    assert list(numbers(2).concat(numbers(3))) == [0, 1, 0, 1, 2]
    assert list(numbers(2).zip(numbers(3))) == [(0, 0), (1, 1)]
    assert [len(numbers(2).concat(numbers(3))), len(numbers(2).zip(numbers(3)))] == [5, 2]
    assert next(iter(numbers(4).batch(4).collate())).tolist() == [0, 1, 2, 3]
    assert list(steps.Sampler(numbers(3))) == [0, 1, 2]


def test_functions_of_entries():
    pairs = steps.IterableWrapper([(1, 2), (3, 4)])
    assert list(pairs.map(lambda x: -x, input_col=1)) == [(1, -2), (3, -4)]
    assert list(pairs.map(lambda x, y: x + y, input_col=[0, 1], output_col=-1)) == [(1, 2, 3), (3, 4, 7)]
    named = steps.IterableWrapper([{"a": 1}])
    assert list(named.map(str, "a", "b")) == [{"a": 1, "b": "1"}]
    assert list(pairs.filter(lambda x: x > 2, input_col=0)) == [(3, 4)]


def test_shuffling_keeps_the_elements():
    shuffled = numbers(50).shuffle(buffer_size=10)
    assert sorted(shuffled) == list(range(50))
    assert list(shuffled.set_seed(3)) == list(shuffled.set_seed(3)) != list(range(50))
    assert list(shuffled.set_shuffle(False)) == list(range(50))
    assert len(shuffled) == 50
    assert sorted(numbers(6).batch(2).shuffle(unbatch_level=1)) == list(range(6))


def test_settings_reach_all_steps_of_a_chain():
    inner = numbers(20).shuffle()
    chain = inner.map(lambda x: x)
    assert graph_settings.apply_shuffle_settings(chain, shuffle=False) is chain
    assert list(chain) == list(range(20))
    assert graph_settings.apply_shuffle_settings(chain) is chain
    assert isinstance(graph_settings.apply_shuffle_settings(numbers(), shuffle=True), ShufflerIterDataPipe)
    inner.set_shuffle(True)
    generators = [torch.Generator().manual_seed(5) for _ in range(2)]
    first, second = (list(graph_settings.apply_random_seed(chain, generator)) for generator in generators)
    assert first == second


def test_chains_are_data_sets_of_loaders():
    batches = list(DataLoader(numbers(5).map(float), batch_size=2))
    assert [batch.tolist() for batch in batches] == [[0.0, 1.0], [2.0, 3.0], [4.0]]


def test_classes_become_methods():
    @functional_datapipe("doubled_here")
    class Doubled(IterDataPipe):
        def __init__(self, source):
            self.source = source

        def __iter__(self):
            return (2 * x for x in self.source)

    @functional_datapipe("third_here")
    class Third(MapDataPipe):
        def __init__(self, source):
            self.source = source

        def __getitem__(self, place):
            return self.source[3 * place]

    try:
        assert list(numbers(3).doubled_here()) == [0, 2, 4]
        assert Third(Third(range(20)))[2] == Third(range(20)).third_here()[2] == 18
        assert repr(numbers(3).doubled_here()).endswith("Doubled")
        with pytest.raises(ArgumentError, match=r"\[register_datapipe_as_function\] another step 'doubled_here' — "
                           "Unable to add DataPipe function name doubled_here "
                           "as it is already taken — choose another name"):
            functional_datapipe("doubled_here")(Doubled)
    finally:
        del IterDataPipe.functions["doubled_here"], MapDataPipe.functions["third_here"]
    IterDataPipe.register_function("count_here", lambda source: len(list(source)))
    assert numbers(3).count_here() == 3
    del IterDataPipe.functions["count_here"]


@pytest.mark.parametrize(("call", "message"), [
    (lambda: numbers().batch(0), r"\[Batcher\] batch_size=0 — Batch size is required to be larger than 0! — pass a "
     "positive number"),
    (lambda: numbers().shuffle(buffer_size=0), r"\[Shuffler\] buffer_size=0 — buffer_size should be larger than 0 — "
     "pass a positive number"),
    (lambda: functional_datapipe("any")(int), r"\[functional_datapipe\] the class int — functional_datapipe only can "
     "decorate IterDataPipe or MapDataPipe — derive it from one of these"),
])
def test_refused_steps(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
    with pytest.raises(AttributeError, match="'IterableWrapperIterDataPipe' object has no attribute 'nothing'"):
        numbers().nothing()
