# SPDX-License-Identifier: MIT
"""The library inside other people's builds: as a subdirectory, fetched, with link-time
optimisation, freestanding, with musl.

Usage: elsewhere.py SOURCE_DIR. Everything is built in a temporary folder whose name has a space.
"""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import tempfile
from pathlib import Path

from installed import HERE, M32, STANDARDS, WARNINGS, run

LTO = [("gcc", "g++", "gcc-ar"), ("clang-19", "clang++-19", "ar")]
PROJECT = """\
cmake_minimum_required(VERSION 3.25)
project(foreign VERSION 9.9 LANGUAGES C CXX)
{how}
configure_file({here}/use.c use.cpp COPYONLY)
add_executable(use_c {here}/use.c)
add_executable(use_cpp ${{CMAKE_CURRENT_BINARY_DIR}}/use.cpp)
set_target_properties(use_c PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
set_target_properties(use_cpp PROPERTIES CXX_STANDARD 17 CXX_EXTENSIONS OFF)
foreach(name IN ITEMS use_c use_cpp)
  target_compile_options(${{name}} PRIVATE -Wall -Wextra -Wpedantic -Werror)
endforeach()
target_link_libraries(use_c PRIVATE linewright::linewright)
target_link_libraries(use_cpp PRIVATE linewright::shared)
"""
SUBDIRECTORY = 'add_subdirectory("{source}" linewright)'
FETCHED = """\
include(FetchContent)
FetchContent_Declare(linewright SOURCE_DIR "{source}")
FetchContent_MakeAvailable(linewright)
"""


def inside_another_project(source: Path, folder: Path, how: str, name: str) -> int:
    """The library builds as part of a project, alone: nothing of the command is configured or
    needed."""
    place = folder / name
    place.mkdir()
    (place / "CMakeLists.txt").write_text(PROJECT.format(how=how.format(source=source), here=HERE))
    run("cmake", "-G", "Ninja", "-S", place, "-B", place / "build")
    targets = run("cmake", "--build", place / "build", "--target", "help")
    assert "linewright-probe" not in targets and "linewright_shared" in targets
    run("cmake", "--build", place / "build", "-j2")
    for program in ("use_c", "use_cpp"):
        run(place / "build" / program)
    version = re.search(
        r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", (place / "build/CMakeCache.txt").read_text(), re.M
    )
    assert version[1] == "9.9", "the outer project's variables are its own"
    return 2


def library(
    source: Path, build: Path, *options: str, targets: tuple[str, ...] = ("linewright",)
) -> Path:
    """The static library, built with some options; the shared one lies beside it where it is among
    the targets."""
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DLINEWRIGHT_PROGRAMS=OFF", *options)
    run("cmake", "--build", build, "--target", *targets, "-j2")
    return build / "src/liblinewright.a"


def with_link_time_optimisation(source: Path, folder: Path) -> int:
    """Static and shared: the forms' assembly, the section attributes and the symbols' versions
    survive."""
    count = 0
    for cc, cxx, ar in LTO:
        if not all(map(shutil.which, (cc, cxx, ar))):
            continue
        archive = library(
            source,
            folder / f"lto {cc}",
            f"-DCMAKE_C_COMPILER={cc}",
            f"-DCMAKE_CXX_COMPILER={cxx}",
            "-DCMAKE_C_FLAGS=-flto",
            f"-DCMAKE_AR={shutil.which(ar)}",
            f"-DCMAKE_RANLIB={shutil.which(ar.replace('ar', 'ranlib'))}",
            targets=("linewright", "linewright_shared"),
        )
        linker = ["-fuse-ld=lld-19"] if cc.startswith("clang") else []
        shared = [archive.with_suffix(".so"), f"-Wl,-rpath,{archive.parent}"]
        for standard, link in itertools.product(STANDARDS, ([archive], shared)):
            language = "c" if standard == "c11" else "c++"
            program = folder / f"lto-{cc}-{standard}"
            run(
                cc if language == "c" else cxx,
                f"-std={standard}",
                *WARNINGS,
                "-O2",
                "-flto",
                *linker,
                f"-I{source}/include",
                "-x",
                language,
                HERE / "use.c",
                "-x",
                "none",
                *link,
                "-pthread",
                "-o",
                program,
            )
            run(program)
            assert ("liblinewright.so" in run("objdump", "-p", program)) == (link is shared), (
                program
            )
            count += 1
    return count


FREESTANDING = """\
#include <linewright/arch/forms.h>
#include <linewright/arch/cpu.h>
{more}
"""


def freestanding(source: Path, folder: Path) -> int:
    """The forms need no C library: no hosted header, no undefined symbol."""
    compilers = [
        ["gcc"],
        ["clang-14"],
        ["clang-19"],
        ["gcc-12", "-m32", "-idirafter", M32],
        ["aarch64-linux-gnu-gcc"],
    ]
    count = 0
    for compiler in compilers:
        if not shutil.which(compiler[0]):
            continue
        for standard, language in (("c11", "c"), ("c++17", "c++")):
            if language == "c++" and not compiler[0].startswith("clang"):
                continue  # one C++ compiler is enough: its freestanding headers are the C ones
            made = folder / "freestanding.o"
            run(
                *compiler,
                f"-std={standard}",
                *WARNINGS,
                "-O2",
                "-ffreestanding",
                "-fno-builtin",
                "-mno-outline-atomics" if "aarch64" in compiler[0] else "-fno-common",
                f"-I{source}/include",
                "-DLW_NO_POLICY",
                "-c",
                "-x",
                language,
                "-",
                "-o",
                made,
                input=FREESTANDING.format(
                    more="int nothing_else(void);\nint nothing_else(void) { return 0; }"
                ),
            )
            assert not run("nm", "--undefined-only", made).strip(), (
                f"{compiler}: {run('nm', '--undefined-only', made)}"
            )
            count += 1
    return count


def with_musl(source: Path, folder: Path) -> int:
    """The library with another C library, static as in an Alpine-like image. Linux's own headers
    come last."""
    if not shutil.which("musl-gcc"):
        return 0
    headers = "-idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu"
    archive = library(
        source, folder / "musl", "-DCMAKE_C_COMPILER=musl-gcc", f"-DCMAKE_C_FLAGS={headers}"
    )
    program = folder / "with-musl"
    run(
        "musl-gcc",
        "-std=c11",
        *WARNINGS,
        "-static",
        f"-I{source}/include",
        *headers.split(),
        HERE / "use.c",
        archive,
        "-o",
        program,
    )
    run(program)
    assert b"GNU C Library" not in program.read_bytes(), "glibc was linked in place of musl"
    return 1


def main(source: str) -> int:
    if not all(map(shutil.which, ("cmake", "ninja", "gcc"))):
        print("missing cmake, ninja or gcc: nothing was checked")
        return 77
    with tempfile.TemporaryDirectory(suffix=" with space") as temporary:
        folder, root = Path(temporary), Path(source).resolve()
        print(
            inside_another_project(root, folder, SUBDIRECTORY, "subdirectory"),
            "programs by add_subdirectory",
        )
        print(inside_another_project(root, folder, FETCHED, "fetched"), "programs by FetchContent")
        print(with_link_time_optimisation(root, folder), "programs with link-time optimisation")
        print(freestanding(root, folder), "freestanding objects")
        print(with_musl(root, folder), "program with musl")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
