"""Set-up and checks of this repository, with the standard library only: it makes the environments for everything else.

Commands: quickstart, test, test-fast, lint, types, generate, soak, fuzz, clean, distclean (see the Makefile).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES: Final[list[str]] = PROJECT["tool"]["tensocket"]["packages"]
EXTRAS: Final[dict[str, list[str]]] = PROJECT["project"]["optional-dependencies"]
#: Needs of the build backend, installed once per environment: pip's isolated builds would install them per package.
BUILD: Final[list[str]] = [*PROJECT["build-system"]["requires"], "editables"]
#: Files and folders of the tests that ``test-fast`` runs, and files in these folders that it leaves out.
FAST_TESTS: Final[list[str]] = PROJECT["tool"]["tensocket"]["fast-tests"]
SLOW_TESTS: Final[list[str]] = PROJECT["tool"]["tensocket"]["slow-tests"]

MAIN_ENV: Final = ROOT / ".venv"
#: Environment of the contract and core alone; its tests prove that core needs no operators, backend or front end.
CORE_ENV: Final = ROOT / ".venv-core"
#: Environment that adds the operators; their tests prove that they need no backend and no front end.
OPERATORS_ENV: Final = ROOT / ".venv-operators"

POCL: Final = "pocl-opencl-icd"
#: Tests of the operators that passed in their own environment, which ``make test`` does not repeat with all packages.
PASSED_ALONE: Final = OPERATORS_ENV / "passed.txt"
CACHES: Final = (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "build", "dist", "out")


def say(text: str) -> None:
    """Print a heading before the output that it announces."""
    print(f"\n== {text}", flush=True)


def run(command: Sequence[str | Path], *, quiet: bool = False) -> bool:
    """Run a command in the repository root; return True on success. With ``quiet``, show output only on failure."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    sink = subprocess.PIPE if quiet else None
    done = subprocess.run([str(word) for word in command], cwd=ROOT, env=environment, check=False,
                          stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT if quiet else None, text=True)
    if quiet and done.returncode:
        print("\n".join(done.stdout.splitlines()[-30:]), flush=True)
    return done.returncode == 0


def must(command: Sequence[str | Path], *, quiet: bool = False) -> None:
    """Run a command and exit with status 1 if it fails."""
    if not run(command, quiet=quiet):
        sys.exit(f"failed: {' '.join(str(word) for word in command)}")


def tool(env: Path, name: str) -> Path:
    """Return the path of a command inside a virtual environment."""
    return env / ("Scripts" if os.name == "nt" else "bin") / name


def _fingerprint(folders: Sequence[str]) -> str:
    """Return a hash of everything that an editable installation depends on but does not follow by itself."""
    # Folders may have extras, such as ``core[scipy]``.
    projects = [ROOT, *(ROOT / folder.partition("[")[0] for folder in folders)]
    files = [project / "pyproject.toml" for project in projects]
    parts = [bytes(ROOT), *map(str.encode, folders), *(path.read_bytes() for path in files)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _make_env(env: Path) -> None:
    """Make the environment unless a working one exists, of the version that ``PYTHON`` asks for if it is set."""
    wrong = f"[:2] != {sys.version_info[:2]}" if os.environ.get("PYTHON") else " < (3, 11)"
    check = f"import sys, pip; sys.exit(sys.version_info{wrong})"
    if tool(env, "python").exists() and run([tool(env, "python"), "-c", check], quiet=True):
        return
    say(f"Making {env.name} with Python {sys.version.split()[0]}")
    must([sys.executable, "-m", "venv", "--clear", env])


def install(env: Path, folders: Sequence[str], requirements: Sequence[str]) -> None:
    """Install packages of the checkout (editable) and other requirements, unless the stamp says that they are there."""
    _make_env(env)
    stamp, fingerprint = env / "tensocket-installed.json", _fingerprint(folders)
    known = json.loads(stamp.read_text("utf-8")) if stamp.exists() else {}
    current = known.get("fingerprint") == fingerprint
    there = set(known["requirements"]) if current else set()
    missing = sorted(set(requirements) - there)
    if current and not missing:
        return
    editable = [] if current else [word for folder in folders for word in ("-e", f"./{folder}")]
    say(f"Installing into {env.name}: {', '.join([*editable[1::2], *missing])}")
    pip: list[str | Path] = [tool(env, "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    must([*pip, *BUILD, *missing], quiet=True)
    if editable:
        must([*pip, "--no-build-isolation", *editable], quiet=True)
    # Compile even if Python is set to write no bytecode: it would compile everything again at each start.
    must([tool(env, "python"), "-m", "compileall", "-q", *(folder.partition("[")[0] for folder in folders)])
    stamp.write_text(json.dumps({"fingerprint": fingerprint, "requirements": sorted(there.union(missing))}), "utf-8")


def opencl_works() -> bool:
    """Whether an OpenCL device builds and runs a kernel."""
    done = subprocess.run([str(tool(MAIN_ENV, "python")), str(ROOT / "tools" / "check_opencl.py")], check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        print(f"OpenCL does not work: {done.stderr.strip().splitlines()[-1]}", flush=True)
    return done.returncode == 0


def provide_opencl() -> bool:
    """Install an OpenCL driver if none works and the user may, else say what to do; return True if one works."""
    if opencl_works():
        return True
    may = hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None
    if may:
        say(f"Installing an OpenCL driver for the CPU ({POCL})")
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        run(["apt-get", "-qq", "update"], quiet=True)
        if run(["apt-get", "-qq", "-y", "--no-install-recommends", "install", POCL], quiet=True) and opencl_works():
            return True
    print(f"Going on without OpenCL. To use it, install your GPU vendor's OpenCL driver, or, for the CPU, "
          f"Debian's and Ubuntu's package {POCL}, then run this again.", flush=True)
    return False


def quickstart() -> int:
    """Install everything, list the devices, train on real digits and validate the backends."""
    started = time.monotonic()
    install(MAIN_ENV, PACKAGES, EXTRAS["examples"])
    devices = ["cpu", "opencl"] if provide_opencl() else ["cpu"]
    command = tool(MAIN_ENV, "tensocket")
    say("tensocket devices")
    must([command, "devices"])
    for device in devices:
        say(f"python examples/train_digits.py --device {device}")
        must([tool(MAIN_ENV, "python"), "examples/train_digits.py", "--device", device])
    for device in devices:
        say(f"tensocket conformance {device} --quick")
        must([command, "conformance", device, "--quick"])
    say(f"Done in {time.monotonic() - started:.0f} s. Next: source .venv/bin/activate")
    return 0


def _install_for_checks() -> None:
    install(MAIN_ENV, PACKAGES, [*EXTRAS["dev"], *EXTRAS["examples"]])


def lint() -> int:
    """Check style with ruff."""
    _install_for_checks()
    return 0 if run([tool(MAIN_ENV, "python"), "-m", "ruff", "check", "."]) else 1


def types() -> int:
    """Check types with mypy."""
    _install_for_checks()
    return 0 if run([tool(MAIN_ENV, "python"), "-m", "mypy"]) else 1


#: The generators that read the operator records, in order: the reference needs the docstrings of the functions.
_GENERATORS: Final = ("generate_operators.py", "generate_stubs.py", "generate_reference.py",
                      "generate_onnx_table.py", "generate_names.py")


def generate() -> int:
    """Write the files that follow from the operator records: functions and methods, their stubs, the reference."""
    _install_for_checks()
    return 0 if all(run([tool(MAIN_ENV, "python"), ROOT / "tools" / name]) for name in _GENERATORS) else 1


def soak() -> int:
    """Run a mixed program for ten minutes, or ``TENSOCKET_SOAK`` seconds, and check that memory does not grow."""
    _install_for_checks()
    os.environ.setdefault("TENSOCKET_SOAK", "600")
    return 0 if run([tool(MAIN_ENV, "python"), "-m", "pytest", "-q", "tests/frontend/test_soak.py"]) else 1


def fuzz() -> int:
    """Compare random calls with references for a minute, or ``TENSOCKET_FUZZ`` seconds; ``tests/fuzz/README.md``."""
    _install_for_checks()
    return 0 if run([tool(MAIN_ENV, "python"), "tests/fuzz"]) else 1


_ALONE_TOOLS: Final = [spec for spec in EXTRAS["dev"] if spec.startswith(("pytest", "hypothesis"))]


def core_alone() -> int:
    """Run the tests of core in an environment with only the contract and core."""
    install(CORE_ENV, ["plugins", "core"], _ALONE_TOOLS)
    return 0 if run([tool(CORE_ENV, "python"), "-m", "pytest", "-q", "tests/core"]) else 1


def operators_alone() -> int:
    """Run the tests of the operators in an environment with only the contract, core and the operators."""
    install(OPERATORS_ENV, ["plugins", "core", "operators[scipy]"], _ALONE_TOOLS)
    PASSED_ALONE.unlink(missing_ok=True)
    return 0 if run([tool(OPERATORS_ENV, "python"), "-m", "pytest", "-q", "-n", "2", "-p", "tests.passed_before",
                     "--note-passed", PASSED_ALONE, "tests/operators"]) else 1


def suite() -> int:
    """Run the test suite without what just passed with the operators alone."""
    return 0 if run([tool(MAIN_ENV, "python"), "-m", "pytest", "-q", "-n", "2", "-p", "tests.passed_before",
                     "--leave-out", PASSED_ALONE]) else 1


def test() -> int:
    """Set up, then run every check, even after one fails."""
    _install_for_checks()
    provide_opencl()
    steps: list[tuple[str, Callable[[], int]]] = [
        ("Core alone, on the device ref", core_alone),
        ("Operators alone, on the device ref", operators_alone),
        ("ruff", lint), ("mypy", types), ("Whole test suite", suite)]
    failed = []
    for name, step in steps:
        say(name)
        if step():
            failed.append(name)
    if failed:
        print(f"\nFailed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


def test_fast() -> int:
    """Run ruff and the tests that are fast enough to run during development; pyproject.toml lists them."""
    _install_for_checks()
    say("ruff")
    clean_style = run([tool(MAIN_ENV, "python"), "-m", "ruff", "check", "."])
    say("Fast tests")
    ignored = [f"--ignore={name}" for name in SLOW_TESTS]
    passed = run([tool(MAIN_ENV, "python"), "-m", "pytest", "-q", "-n", "2", *ignored, *FAST_TESTS])
    return 0 if clean_style and passed else 1


def clean() -> int:
    """Remove caches and build outputs."""
    for name in CACHES:
        shutil.rmtree(ROOT / name, ignore_errors=True)
    for folder in (*PACKAGES, "tests", "tools", "examples", "benchmarks"):
        for cache in (ROOT / folder).rglob("__pycache__"):
            shutil.rmtree(cache, ignore_errors=True)
    return 0


def distclean() -> int:
    """Remove the virtual environments as well."""
    for env in (MAIN_ENV, CORE_ENV, OPERATORS_ENV):
        shutil.rmtree(env, ignore_errors=True)
    return clean()


COMMANDS: Final[dict[str, Callable[[], int]]] = {
    command.__name__.replace("_", "-"): command
    for command in (quickstart, test, test_fast, lint, types, generate, soak, fuzz, clean, distclean)}


def main(arguments: Sequence[str]) -> int:
    """Run the named command; return status 2 for an unknown one."""
    if len(arguments) != 1 or arguments[0] not in COMMANDS:
        print(f"usage: tools/run {{{','.join(COMMANDS)}}}", file=sys.stderr)
        return 2
    return COMMANDS[arguments[0]]()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
