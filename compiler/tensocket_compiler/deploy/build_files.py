"""The files that build a C library: for make and for CMake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MAKE: Final = """\
# The model {name} as a static and a shared library. {hint}
CC ?= cc
CFLAGS ?= -O3{march}
{blas}FLAGS = -std=c99 -ffp-contract=off -fPIC -Wall -Wextra
OBJECTS = {objects}

all: lib{name}.a lib{name}.so

%.o: %.c {name}.h
\t$(CC) $(FLAGS) $(CFLAGS) -c $< -o $@

lib{name}.a: $(OBJECTS)
\t$(AR) rcs $@ $(OBJECTS)

lib{name}.so: $(OBJECTS)
\t$(CC) $(CFLAGS) -shared $(OBJECTS) -o $@{link} -lm

clean:
\trm -f $(OBJECTS) lib{name}.a lib{name}.so

.PHONY: all clean
"""

_CMAKE: Final = """\
# The model {name}: add_subdirectory(this folder), then target_link_libraries(program PRIVATE {name}).
cmake_minimum_required(VERSION 3.13)
project({name} C)

add_library({name} {sources})
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
set_target_properties({name} PROPERTIES C_STANDARD 99 POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
if(NOT MSVC)
  target_compile_options({name} PRIVATE -ffp-contract=off{march})
  target_link_libraries({name} PUBLIC m)
endif()
{blas}"""
_CMAKE_BLAS: Final = """\
find_package(BLAS REQUIRED)
target_link_libraries({name} PUBLIC ${{BLAS_LIBRARIES}})
"""


@dataclass(frozen=True, slots=True)
class Build:
    """Choices of the files.

    Attributes:
        in_file: Whether weights are in a file.
        cpu: The processor whose instructions the compiler may use, as its ``-march`` calls it; None for all.
        blas: Whether BLAS multiplies matrices.
    """

    in_file: bool
    cpu: str | None = None
    blas: bool = False


def _stems(name: str, build: Build) -> list[str]:
    return [name] if build.in_file else [name, f"{name}_weights"]


def _march(build: Build) -> str:
    return f" -march={build.cpu}" if build.cpu else ""


def makefile(name: str, build: Build) -> str:
    """Return the Makefile."""
    hint = f"It needs a processor {build.cpu}." if build.cpu else "CFLAGS may add -march=native."
    hint += " BLAS is the option that links a library with cblas.h." if build.blas else ""
    return _MAKE.format(name=name, objects=" ".join([f"{x}.o" for x in _stems(name, build)]), hint=hint,
                        march=_march(build), blas="BLAS ?= -lopenblas\n" if build.blas else "",
                        link=" $(BLAS)" if build.blas else "")


def cmake(name: str, build: Build) -> str:
    """Return the CMakeLists.txt."""
    return _CMAKE.format(name=name, sources=" ".join([f"{x}.c" for x in _stems(name, build)]), march=_march(build),
                         blas=_CMAKE_BLAS.format(name=name) if build.blas else "")
