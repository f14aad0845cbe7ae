"""Names of PyTorch's code generator that programs use; settings are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket.errors import ArgumentError

from . import config


def cudagraph_mark_step_begin() -> None:
    """Say that the results of earlier steps are no longer needed."""
    from tensocket.compiler import cudagraph_mark_step_begin as mark

    mark()


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """Return the options that a mode of ``compile`` stands for; without a mode, those of all modes by name."""
    from tensocket.compiler.options import list_mode_options as options_of

    return options_of(mode, dynamic)


def list_options() -> list[str]:
    """Return the names of the options of ``compile``."""
    from tensocket.compiler.options import list_options as names

    return names()


def compile(gm: Any, example_inputs: Any, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Compile a graph module; the inputs are those of its calls."""
    from tensocket.compiler import compile as compile_function

    compiled: Callable[..., Any] = compile_function(gm, options=options)
    return compiled


def aoti_compile_and_package(exported_program: Any, _deprecated_unused_args: Any = None,
                             _deprecated_unused_kwargs: Any = None, *, package_path: Any = None,
                             inductor_configs: dict[str, Any] | None = None) -> str:
    """Write a program with the machine code of its graph for the example inputs, and return the path.

    Args:
        exported_program: The program.
        package_path: The file, whose name ends with ``.pt2``; by default ``model.pt2``.
        inductor_configs: Not supported.

    Raises:
        ArgumentError: There are settings or arguments, or the name has another ending.
        CompileError: The program is not a graph for the compiler.
    """
    from tensocket.export.serving import compile_and_package

    if inductor_configs or _deprecated_unused_args is not None or _deprecated_unused_kwargs is not None:
        raise ArgumentError("aoti_compile_and_package", "settings or arguments", "the program has its example inputs, "
                            "and the compiler no settings", "pass the program and package_path")
    return compile_and_package(exported_program, "model.pt2" if package_path is None else package_path)


def aoti_load_package(path: Any, run_single_threaded: bool = False, device_index: int = -1) -> Any:
    """Return the compiled program of a file; its machine code runs, so load only files that you trust.

    Args:
        path: A file of ``aoti_compile_and_package``.
        run_single_threaded: Accepted: calls may come from several threads in any case.
        device_index: Not supported.

    Raises:
        ArgumentError: There is a number of a device.
        DamagedFileError: The file has another format, or is truncated or damaged.
    """
    from tensocket.export.serving import load_package

    if device_index != -1:
        raise ArgumentError("aoti_load_package", f"device_index={device_index}", "programs run on the devices that "
                            "they were exported for", "move the program with export.passes.move_to_device_pass first")
    return load_package(path)


__all__ = ["aoti_compile_and_package", "aoti_load_package", "compile", "config", "list_mode_options", "list_options"]
