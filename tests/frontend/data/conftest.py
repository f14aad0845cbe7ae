"""Small data sets."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket.utils.data import Dataset, IterableDataset, TensorDataset


class Squares(Dataset):
    def __init__(self, size=10):
        self.size = size

    def __getitem__(self, index):
        return index**2

    def __len__(self):
        return self.size


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(7))


@pytest.fixture
def squares():
    return Squares


@pytest.fixture
def stream():
    return Stream


@pytest.fixture
def rows():
    return lambda size=10: TensorDataset(torch.arange(2 * size).reshape(size, 2), torch.arange(size))


@pytest.fixture
def seeded():
    return lambda seed: torch.Generator().manual_seed(seed)
