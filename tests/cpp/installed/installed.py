# SPDX-License-Identifier: MIT
"""Install the library into a fresh folder, move it, and build foreign C11, C++17 and C++20 programs
against it.

Usage: installed.py BUILD_DIR. Every program is compiled by gcc and clang with -Wall -Wextra
-Wpedantic -Werror, against the static and the shared library by pkg-config, against the headers
alone, and once per compiler through find_package."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
COMPILERS = [("gcc", "g++"), ("clang-14", "clang++-14")]
STANDARDS = ["c11", "c++17", "c++20"]
M32 = "/usr/include/x86_64-linux-gnu"  # where Debian keeps the headers of the 32-bit C library too

CMAKE_PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project(foreign LANGUAGES C CXX)
find_package(linewright REQUIRED)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
configure_file(use.c use.cpp COPYONLY)
foreach(how IN ITEMS linewright shared headers)
  foreach(standard IN ITEMS c11 cxx17 cxx20)
    set(source use.c)
    if(standard MATCHES cxx)
      set(source ${CMAKE_CURRENT_BINARY_DIR}/use.cpp)
    endif()
    set(name use_${how}_${standard})
    add_executable(${name} ${source})
    string(REGEX REPLACE "^[a-z]+" "" version ${standard})
    set_target_properties(${name} PROPERTIES C_STANDARD 11)
    if(standard MATCHES cxx)
      set_target_properties(${name} PROPERTIES CXX_STANDARD ${version})
    endif()
    target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Werror)
    target_link_libraries(${name} PRIVATE linewright::${how})
    if(how STREQUAL "headers")
      target_compile_definitions(${name} PRIVATE LW_NO_POLICY)
    endif()
  endforeach()
endforeach()
"""


def run(*command: str | Path, **options) -> str:
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n" + (done.stdout + done.stderr)[:4000])
    return done.stdout


def built_by_pkg_config(prefix: Path, folder: Path, compilers: list[tuple[str, str]]) -> int:
    pc = {**os.environ, "PKG_CONFIG_PATH": str(next(prefix.glob("lib*/**/pkgconfig")))}
    cflags = shlex.split(run("pkg-config", "--cflags", "linewright", env=pc))
    libs = shlex.split(run("pkg-config", "--libs", "linewright", env=pc))
    static = shlex.split(run("pkg-config", "--libs", "--static", "linewright", env=pc))
    libdir = " ".join(shlex.split(run("pkg-config", "--variable=libdir", "linewright", env=pc)))
    count = 0
    for cc, cxx in compilers:
        for standard in STANDARDS:
            compiler, language = (cc, "c") if standard.startswith("c1") else (cxx, "c++")
            for how, flags, link in (
                ("shared", [], [*libs, f"-Wl,-rpath,{libdir}"]),
                ("static", [], ["-Wl,-Bstatic", *static[:2], "-Wl,-Bdynamic", *static[2:]]),
                ("headers", ["-DLW_NO_POLICY"], []),
            ):
                program = folder / f"{compiler}-{standard}-{how}"
                run(
                    compiler,
                    f"-std={standard}",
                    *WARNINGS,
                    *cflags,
                    *flags,
                    "-x",
                    language,
                    HERE / "use.c",
                    "-x",
                    "none",
                    "-o",
                    program,
                    *link,
                )
                run(program)
                needed = run("objdump", "-p", program)
                assert ("liblinewright.so" in needed) == (how == "shared"), (
                    f"{program}: linked the wrong library"
                )
                count += 1
    return count


def built_by_the_pages(prefix: Path, folder: Path) -> int:
    """Lines of the pages that compile a program against the library, as they stand there; and what
    they say of CMake is what CMAKE_PROJECT asks for."""
    docs = HERE.parents[2] / "docs"
    text = "\n".join(path.read_text() for path in sorted(docs.rglob("*.md")))
    lines = sorted(set(re.findall(r"\bcc [^`#\n]*prog\.c[^`#\n]*", text)))
    libraries = next(prefix.glob("lib*/**/pkgconfig")).parent
    environment = {
        **os.environ,
        "PKG_CONFIG_PATH": str(libraries / "pkgconfig"),
        "LD_LIBRARY_PATH": str(libraries),
    }
    shutil.copy(HERE / "use.c", folder / "prog.c")
    for line in lines:
        words = line.replace("-I…", f"-I{prefix}/include")
        run("sh", "-ec", f"{words}\n./a.out", cwd=folder, env=environment)
    assert {"-DLW_NO_POLICY" in line for line in lines} == {True, False}, lines
    named = {*re.findall(r"linewright::(\w+)`", text)}
    assert named == {"linewright", "shared", "headers"}, named
    return len(lines)


def built_by_find_package(prefix: Path, folder: Path, compilers: list[tuple[str, str]]) -> int:
    count = 0
    for cc, cxx in compilers:
        source = folder / f"project-{cc}"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(CMAKE_PROJECT)
        shutil.copy(HERE / "use.c", source)
        run(
            "cmake",
            "-G",
            "Ninja",
            "-S",
            source,
            "-B",
            source / "build",
            f"-DCMAKE_C_COMPILER={cc}",
            f"-DCMAKE_CXX_COMPILER={cxx}",
            f"-DCMAKE_PREFIX_PATH={prefix}",
        )
        run("cmake", "--build", source / "build", "-j2")
        for program in sorted((source / "build").glob("use_*")):
            run(program)
            count += 1
    return count


def headers_alone(prefix: Path, compilers: list[tuple[str, str]]) -> int:
    """Every installed header compiles by itself, first in a file, as C11 and as C++17; parts of
    another say so at their head."""
    count = 0
    include = prefix / "include"
    for header in sorted((include / "linewright").rglob("*.h")):
        if re.search(r"part of \w+\.h|Included by (\w+\/)*\w+\.h", header.read_text()[:400]):
            continue
        for compiler, standard, language in compilers_of(header.parent.name, compilers):
            if header.name == "measure.h":  # clock_gettime() is not C11's
                standard = standard.replace("c", "gnu", 1)
            run(
                *compiler,
                f"-std={standard}",
                *WARNINGS,
                f"-I{include}",
                "-fsyntax-only",
                "-x",
                language,
                "-",
                input=f"#include <{header.relative_to(include)}>\nint nothing_else(void);\n",
            )
            count += 1
    return count


def inside_extern_c(prefix: Path, compilers: list[tuple[str, str]]) -> int:
    """C++ programs often include C headers inside `extern "C"`; what is C++ in these says so
    itself."""
    public = sorted(h.name for h in (prefix / "include/linewright").glob("*.h"))
    every = "".join(
        f"#include <linewright/{name}>\n"
        for name in public
        if not name.startswith(("wide_", "percpu_g", "srcu_g"))
    )
    count = 0
    for _, cxx in compilers:
        for standard in ("c++11", "c++17", "c++20"):
            run(
                cxx,
                f"-std={standard}",
                *WARNINGS,
                f"-I{prefix / 'include'}",
                "-fsyntax-only",
                "-x",
                "c++",
                "-",
                input=f'extern "C" {{\n{every}}}\n',
            )
            count += 1
    return count


def compilers_of(folder: str, compilers: list[tuple[str, str]]) -> list[tuple[list[str], str, str]]:
    """(command, standard, language) for the headers of a folder: those of one architecture need its
    compiler."""
    if folder == "arm64":
        pairs = [(["aarch64-linux-gnu-gcc"], ["aarch64-linux-gnu-g++"])]
    elif folder == "i386":
        pairs = [(["gcc-12", "-m32", "-idirafter", M32], ["g++-12", "-m32", "-idirafter", M32])]
    else:
        pairs = [([cc], [cxx]) for cc, cxx in compilers]
    every = [(cc, "c11", "c") for cc, _ in pairs] + [(cxx, "c++17", "c++") for _, cxx in pairs]
    return [choice for choice in every if shutil.which(choice[0][0])]


def built_example(prefix: Path, folder: Path, name: str) -> Path:
    """The program of an example that is built from an installed copy alone."""
    source, build = folder / name, folder / f"{name}-build"
    shutil.copytree(HERE.parents[2] / "examples" / name, source)
    run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    return build / name


def built_examples(prefix: Path, folder: Path) -> int:
    log = built_example(prefix, folder, "persistent_log")
    run(log, "append", folder / "log", input="one\ntwo\n")
    assert run(log, "print", folder / "log") == "1\tone\n2\ttwo\n"
    assert "searches" in run(built_example(prefix, folder, "rcu_collections"), "200")
    return 2


MARK = '__attribute__((visibility("default")))'
TYPE = (
    r"(?:__thread )?(?:const |char|struct \w+|enum "
    r"\w+|unsigned|void|int|bool|_Bool|size_t|\w+_t|lw_u\d+|lw_srcu_index)[\w \*]*?"
)


def exported(prefix: Path) -> str:
    """The shared library exports what the public headers declare for this architecture, and nothing
    else."""
    library = next(prefix.glob("lib*/**/liblinewright.so"))
    listed = run("nm", "-D", "--defined-only", library)
    symbols = set(re.findall(r"^[0-9a-f]+ [B-TV-Z] (\S+?)@", listed, re.M))
    soname = re.search(r"SONAME +liblinewright\.so\.(\S+)", run("objdump", "-p", library))[1]
    versions = set(re.findall(r"^[0-9a-f]+ [B-TV-Z] \S+?(?:@@(\S+))?$", listed, re.M))
    assert versions == {f"LINEWRIGHT_{soname}"}, f"symbol versions {versions}, soname {soname}"
    headers = "".join(
        f"#include <linewright/{h.name}>\n"
        for h in sorted((prefix / "include/linewright").glob("*.h"))
    )
    text = run(
        "gcc",
        "-std=gnu11",
        "-O2",
        "-E",
        "-P",
        f"-DLW_INLINE={MARK}",  # as the file that makes functions of them
        f"-DLW_ALWAYS_INLINE={MARK}",
        f"-I{prefix / 'include'}",
        "-x",
        "c",
        "-",
        input=headers,
    )
    declared: set[str] = set()
    unmarked: set[str] = set()
    text = text.replace("__attribute__((warn_unused_result)) ", "")
    for statement in (" ".join(piece.split()) for piece in re.split(r"[;{}]", text)):
        name = re.fullmatch(
            rf"(?:extern )?(?:{re.escape(MARK)} )?(?:extern )?{TYPE}\b"
            r"(lw_\w+)(?:\[\d+\]| ?\(.*\)| __attribute__\(\(tls_model.*\)\))?",
            statement,
        )
        if name and MARK in statement:
            declared.add(name[1])
        elif (
            name and "(" in statement and "__error__" not in statement and "error(" not in statement
        ):
            unmarked.add(name[1])
    assert not unmarked, f"without LW_API the shared library hides {', '.join(sorted(unmarked))}"
    assert symbols == declared, (
        f"exported, not declared: {symbols - declared}; declared, not exported: "
        f"{declared - symbols}"
    )
    return f"{len(symbols)} symbols exported"


def main(build: str) -> int:
    compilers = [pair for pair in COMPILERS if all(map(shutil.which, pair))]
    missing = [tool for tool in ("pkg-config", "ninja", "objdump") if not shutil.which(tool)]
    if not compilers or missing:
        print(f"missing {', '.join(missing) or 'compilers'}: nothing was checked")
        return 77
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run("cmake", "--install", build, "--prefix", folder / "first", "--component", "library")
        prefix = (folder / "first").rename(folder / "a moved place".replace(" ", "_"))
        print(exported(prefix))
        print(headers_alone(prefix, compilers), "header compilations")
        print(inside_extern_c(prefix, compilers), 'compilations inside extern "C"')
        print(built_by_pkg_config(prefix, folder, compilers), "programs by pkg-config")
        print(built_by_the_pages(prefix, folder), "lines of the pages")
        print(built_by_find_package(prefix, folder, compilers), "programs by find_package")
        print(built_examples(prefix, folder), "examples")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
