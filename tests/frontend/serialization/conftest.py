"""Round trips through memory, pickles written by hand, and archives around them."""

from __future__ import annotations

import io
import zipfile

import pytest

import tensocket as torch


@pytest.fixture
def saved():
    def run(value, **options):
        stream = io.BytesIO()
        torch.save(value, stream, **options)
        return stream.getvalue()

    return run


@pytest.fixture
def loaded():
    return lambda data, **options: torch.load(io.BytesIO(data), **options)


@pytest.fixture
def copied(saved, loaded):
    return lambda value, **options: loaded(saved(value), **options)


@pytest.fixture
def packed():
    """An archive of these entries; names are taken as they are."""

    def run(entries, method=zipfile.ZIP_STORED):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as archive:
            for name, content in entries.items():
                archive.writestr(name, content)
        return stream.getvalue()

    return run


@pytest.fixture
def with_pickle(packed):
    """An archive of one pickle and storages of these bytes."""

    def run(text, *storages):
        return packed({"archive/data.pkl": text, "archive/version": b"3\n",
                       **{f"archive/data/{k}": data for k, data in enumerate(storages)}})

    return run
