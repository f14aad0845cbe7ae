"""The files that build a C library: for make and for CMake."""

from __future__ import annotations

from typing import Final

_MAKE: Final = """\
# The model {name} as a static and a shared library. CFLAGS may add -march=native.
CC ?= cc
CFLAGS ?= -O3
FLAGS = -std=c99 -ffp-contract=off -fPIC -Wall -Wextra
OBJECTS = {objects}

all: lib{name}.a lib{name}.so

%.o: %.c {name}.h
\t$(CC) $(FLAGS) $(CFLAGS) -c $< -o $@

lib{name}.a: $(OBJECTS)
\t$(AR) rcs $@ $(OBJECTS)

lib{name}.so: $(OBJECTS)
\t$(CC) $(CFLAGS) -shared $(OBJECTS) -o $@ -lm

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
  target_compile_options({name} PRIVATE -ffp-contract=off)
  target_link_libraries({name} PUBLIC m)
endif()
"""


def _stems(name: str, in_file: bool) -> list[str]:
    return [name] if in_file else [name, f"{name}_weights"]


def makefile(name: str, *, in_file: bool) -> str:
    """Return the Makefile."""
    return _MAKE.format(name=name, objects=" ".join([f"{x}.o" for x in _stems(name, in_file)]))


def cmake(name: str, *, in_file: bool) -> str:
    """Return the CMakeLists.txt."""
    return _CMAKE.format(name=name, sources=" ".join([f"{x}.c" for x in _stems(name, in_file)]))
