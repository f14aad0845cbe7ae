"""No file of the repository names a place on anybody's machine, nor is there a file for one machine alone."""

from __future__ import annotations

import re
import subprocess

import pytest

_NAME = rb"(?!(?:you|user|name|me)\b)[\w.]"
#: Folders of people and of work with a name behind them; documents may write a placeholder such as ``<user>``.
_PLACES = re.compile(
    rb"(?:(?<![\w.~$}-])|(?<=-[ILR]))(?:/(?:home|Users)/" + _NAME + rb"|/(?:work|root)/[\w.])"
    rb"|\b[A-Za-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/)" + _NAME, re.IGNORECASE)
#: A folder of work, put together here so that this file holds no such path itself.
WORK = "/" + "work" + "/"
#: Settings of one machine, which belong beside the checkout.
_PRIVATE = frozenset({".land.sh", ".env.sh", ".env", ".envrc"})


def machine_paths(content: bytes) -> list[str]:
    """The lines that name a place on somebody's machine, as ``number: text``."""
    return [f"{number}: {line.strip().decode('utf-8', 'replace')[:120]}"
            for number, line in enumerate(content.split(b"\n"), 1) if _PLACES.search(line)]


@pytest.fixture(scope="module")
def tracked(root):
    """The tracked files with their contents; links and what is deleted in the checkout have none."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("the repository is not a git checkout")
    paths = [path for path in listed.stdout.decode().split("\0") if path and (root / path).is_file()]
    return {path: (root / path).read_bytes() for path in paths}


def test_no_tracked_file_names_a_place_on_a_machine(tracked):
    assert len(tracked) > 1000
    own = "tests/meta/test_machine_paths.py"  # its examples are planted
    found = {path: machine_paths(content) for path, content in tracked.items() if path != own}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_no_file_is_for_one_machine(root, tracked):
    assert [path for path in tracked if path.rpartition("/")[2] in _PRIVATE] == []
    assert [name for name in (".land.sh", ".env.sh") if (root / name).exists()] == []


@pytest.mark.parametrize("line", [
    "/home/jane/tensocket", "see /home/jane.", "cd '/home/jane/x'", "PATH=/home/j-d/bin", "file:///home/jane/x.html",
    "/Users/jane/x", WORK + "x/core", f"({WORK}x)", "/root/.cache/x", "C:\\Users\\jane", r"'c:\\Users\\jane'",
    "D:/Users/jane/x", "\x80/home/jane\xff", "-I/home/jane/include"])
def test_a_planted_path_is_found(line):
    assert machine_paths(b"first\n" + line.encode("latin1") + b"\nlast\n") == [
        f"2: {line.encode('latin1').decode('utf-8', 'replace')}"]


@pytest.mark.parametrize("line", [
    "/tmp/x", "/usr/lib/python3/x", "/dev/null", "/proc/self/maps", "/etc/os-release", "/opt/cuda",
    "~/.cache/x", "/home/<user>/x", "/home/you/x", "/Users/<name>/x", "C:\\Users\\you\\x", "/home/", "homework/main",
    f"a{WORK}x", "https://example.org/home/page", f"https://example.org{WORK}x", "tests/home/x", f"$HOME{WORK}x",
    "/homely/x", "/rooted/x"])
def test_what_is_the_same_everywhere_is_allowed(line):
    assert machine_paths(line.encode()) == []
