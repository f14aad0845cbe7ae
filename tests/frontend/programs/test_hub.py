"""Weights from addresses and models from folders."""

from __future__ import annotations

import hashlib

import pytest

import tensocket as torch
from tensocket import errors, hub
from tensocket.utils import model_zoo


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_DIR", [])
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    return tmp_path


def test_folders(folder):
    assert hub.get_dir() == str(folder / "home" / "hub")
    hub.set_dir(folder / "other")
    assert hub.get_dir() == str(folder / "other")


def test_weights_are_loaded_once(folder, capsys):
    torch.save({"weight": torch.ones(2)}, folder / "source.pth")
    digits = hashlib.sha256((folder / "source.pth").read_bytes()).hexdigest()
    named = folder / f"net-{digits[:8]}.pth"
    (folder / "source.pth").rename(named)
    loaded = hub.load_state_dict_from_url(named.as_uri(), check_hash=True, map_location="cpu")
    assert loaded["weight"].tolist() == [1, 1]
    assert "Downloading" in capsys.readouterr().err
    named.unlink()
    assert model_zoo.load_url(named.as_uri())["weight"].tolist() == [1, 1]
    assert capsys.readouterr().err == ""


def test_a_changed_file_is_refused(folder):
    (folder / "source").write_bytes(b"abc")
    with pytest.raises(errors.SerializationError, match="the hash begins with 00000000"):
        hub.download_url_to_file((folder / "source").as_uri(), folder / "copy", "00000000")
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["source"]
    hub.download_url_to_file((folder / "source").as_uri(), folder / "copy", progress=False)
    assert (folder / "copy").read_bytes() == b"abc"


def test_models_of_a_folder(folder):
    (folder / "hubconf.py").write_text('def net(size=1):\n    """A net."""\n    return [0] * size\n')
    assert hub.load(str(folder), "net", size=2, source="local") == [0, 0]
    assert hub.list(str(folder), source="local") == ["net"]
    assert hub.help(str(folder), "net", source="local") == "A net."
    with pytest.raises(errors.ArgumentError, match=r"a model is a function in hubconf\.py"):
        hub.load(str(folder), "absent", source="local")
    with pytest.raises(errors.ArgumentError, match="sources are on 'github' or 'local'"):
        hub.load("a/b", "net", source="elsewhere")


def test_a_repository_that_is_there_is_not_loaded_again(folder):
    kept = folder / "home" / "hub" / "owner_name_main"
    kept.mkdir(parents=True)
    (kept / "hubconf.py").write_text("def net():\n    return 1\n")
    assert hub.load("owner/name", "net") == 1


def test_hashes_in_names():
    assert hub.HASH_REGEX.search("resnet18-5c106cde.pth")[1] == "5c106cde"
