"""Downloads of weights, which are cached in a folder, and models from a folder or a repository on GitHub.

A repository's ``hubconf.py`` is a program, and loading a model runs it: load only repositories that you trust.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlparse

import tensocket
from tensocket.errors import SerializationError
from tensocket.utils.progress import progress as progress_bar
from tensocket.utils.progress import tqdm as tqdm
from tensocket_plugins.contract.errors import ArgumentError

#: The first digits of a file's SHA-256 at the end of its name, as in ``resnet18-5c106cde.pth``.
HASH_REGEX: Final = re.compile(r"-([a-f0-9]*)\.")
_DIR: list[str] = []
_CHUNK: Final = 1 << 20


def _get_torch_home() -> str:
    """Return the cache folder: ``TORCH_HOME``, or ``torch`` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """Return the folder for models and weights."""
    return _DIR[0] if _DIR else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder for models and weights."""
    _DIR[:] = [os.path.expanduser(d)]


def download_url_to_file(url: str, dst: str | os.PathLike[str], hash_prefix: str | None = None,
                         progress: bool = True) -> None:
    """Download a file, which appears when it is complete.

    Args:
        url: The address: ``https``, ``http`` or ``file``.
        dst: The file.
        hash_prefix: First digits of its SHA-256.
        progress: Whether to show a progress bar on a terminal.

    Raises:
        SerializationError: The hash differs.
    """
    target = Path(dst).expanduser()
    request = urllib.request.Request(url, headers={"User-Agent": "tensocket.hub"})
    with (urllib.request.urlopen(request) as source,
          tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part):
        try:
            digest = _copy(source, part, progress, target.name)
            if hash_prefix and not digest.startswith(hash_prefix):
                raise SerializationError("download_url_to_file", f"{url} with SHA-256 {digest}",
                                         f"the hash begins with {hash_prefix}",
                                         "the file was changed, look at its source")
            part.close()
            os.replace(part.name, target)
        finally:
            Path(part.name).unlink(missing_ok=True)


def _copy(source: Any, part: Any, progress: bool, name: str) -> str:
    digest, size = hashlib.sha256(), int(source.headers.get("Content-Length") or 0)
    chunks = iter(lambda: source.read(_CHUNK), b"")
    for chunk in progress_bar(chunks, description=name, total=-(-size // _CHUNK) or None) if progress else chunks:
        digest.update(chunk)
        part.write(chunk)
    return digest.hexdigest()


def load_state_dict_from_url(url: str, model_dir: str | os.PathLike[str] | None = None, map_location: Any = None,
                             progress: bool = True, check_hash: bool = False, file_name: str | None = None,
                             weights_only: bool = True) -> Any:
    """Load weights from an address; a cached file is not downloaded again.

    Args:
        url: The address.
        model_dir: The folder; ``checkpoints`` in ``get_dir()`` by default.
        map_location: Devices of the tensors.
        progress: Whether to show a progress bar.
        check_hash: Whether the file's name contains its hash, which is then checked.
        file_name: Name of the file; that of the address by default.
        weights_only: Whether the file may contain only data.

    Raises:
        SerializationError: The hash differs.
    """
    folder = Path(model_dir if model_dir is not None else os.path.join(get_dir(), "checkpoints")).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / (file_name or os.path.basename(urlparse(url).path))
    if not file.exists():
        print(f'Downloading: "{url}" to {file}', file=sys.stderr)
        found = HASH_REGEX.search(file.name) if check_hash else None
        download_url_to_file(url, file, found[1] if found else None, progress)
    return tensocket.load(file, map_location=map_location, weights_only=weights_only)


# ------------------------------------------------------------------------------------------------------------ models

def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", trust_repo: bool | str | None = None,
         force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any) -> Any:
    """Run a ``hubconf.py`` and call an entry point of it, without a question: calling this means that you trust it.

    Args:
        repo_or_dir: ``owner/name`` or ``owner/name:branch`` on GitHub, or a folder.
        model: Name of the entry point.
        args: Its arguments.
        source: ``github`` or ``local``.
        trust_repo: Accepted as in PyTorch.
        force_reload: Whether to download a cached repository again.
        verbose: Accepted as in PyTorch.
        skip_validation: Accepted as in PyTorch.
        kwargs: Its named arguments.

    Raises:
        ArgumentError: The source or the entry point is unknown.
    """
    return _entry(_sources(repo_or_dir, source, force_reload), model)(*args, **kwargs)


def list(github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None,
         verbose: bool = True, source: str = "github") -> Any:
    """Run a ``hubconf.py`` and return the names of its entry points."""
    config = vars(_sources(github, source, force_reload))
    return [name for name, value in config.items() if callable(value) and not name.startswith("_")]


def help(github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None,
         source: str = "github") -> str | None:
    """Run a ``hubconf.py`` and return the documentation of an entry point."""
    documentation: str | None = _entry(_sources(github, source, force_reload), model).__doc__
    return documentation


def _entry(config: ModuleType, model: str) -> Any:
    entry = getattr(config, model, None)
    if not callable(entry):
        raise ArgumentError("hub.load", f"the model {model!r}", "a model is a function in hubconf.py",
                            "see the names with hub.list")
    return entry


def _sources(repository: str, source: str, again: bool) -> ModuleType:
    """Return the module ``hubconf`` of a folder or repository."""
    if source not in ("github", "local"):
        raise ArgumentError("hub.load", f"source={source!r}", "sources are on 'github' or 'local'", "pass one of these")
    folder = Path(repository).expanduser() if source == "local" else _repository(repository, again)
    spec = importlib.util.spec_from_file_location("hubconf", folder / "hubconf.py")
    assert spec is not None, "the name says that it is a source"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def _repository(repository: str, again: bool) -> Path:
    """Return the folder with a repository's files; download them if needed."""
    name, _, branch = repository.partition(":")
    branch = branch or "main"
    folder = Path(get_dir()) / f"{name}_{branch}".replace("/", "_")
    if folder.exists() and not again:
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        archive = Path(scratch) / "archive.zip"
        download_url_to_file(f"https://github.com/{name}/zipball/{branch}", archive, progress=False)
        with zipfile.ZipFile(archive) as files:
            files.extractall(Path(scratch) / "files")  # extractall keeps every name inside of that folder
        (root,) = (Path(scratch) / "files").iterdir()
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(root, folder)
    return folder


__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]
