# SPDX-License-Identifier: MIT
"""The field that lies at an address, from a program's debug information, and the layout that is
advised."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from types import SimpleNamespace

import msgspec
import pytest

from linewright.elf import types
from linewright.elf.symbols import module
from linewright.find.addresses import Names
from linewright.find.evidence import Evidence, LinePlace
from linewright.find.fields import Fields, fields_on, separated
from linewright.find.line_words import advised_text, bytes_text, function_text, picture
from linewright.find.results import FieldBytes, LayoutAdvice, Object, Touch
from linewright.find.space import Spaces
from linewright.find.stream import Map
from support.find_results import line

PROGRAM = r"""
#include <stdlib.h>
struct inner { long misses; _Atomic long hits; };
struct shard { int kind; union { struct inner s; long raw[2]; }; };
struct shard shard[8];
struct pair { _Atomic long head, tail; long more[3]; };
static __thread long own[4];
__attribute__((noinline)) struct pair *make(void) {
    struct pair *made = malloc(4 * sizeof *made);
    made->head = own[1];
    return made;
}
__attribute__((noinline)) void *untyped(void) { return malloc(40); }
int main(int count, char **words) {
    static long calls[3];
    shard[count].s.hits += calls[count]++;
    return (int)make()->head + (untyped() == words);
}
"""


@pytest.fixture(scope="module", params=["-gdwarf-5", "-gdwarf-4"])
def program(request, tmp_path_factory):
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    folder = tmp_path_factory.mktemp("fields")
    (folder / "a.c").write_text(PROGRAM)
    command = ["gcc", "-O1", request.param, "-o", folder / "a", folder / "a.c"]
    subprocess.run(command, check=True)
    return str(folder / "a")


@pytest.mark.parametrize("tools", [True, False])
def test_sections_compressed_with_zstd_are_read_or_named(program, tmp_path, monkeypatch, tools):
    """Python has no zstd before 3.14; binutils have."""
    packed = tmp_path / f"packed{tools}"
    pack = ["objcopy", "--compress-debug-sections=zstd", program, packed]
    if subprocess.run(pack, capture_output=True).returncode:
        pytest.skip("this objcopy has no zstd")
    if not tools:
        monkeypatch.setenv("PATH", str(tmp_path))
    layout = types.variable(str(packed), code(program, "main"), "shard")
    assert (layout is not None) == tools
    one, other = Names(Spaces()), Names(Spaces())
    assert one.typed(str(packed)) == str(packed) and one.typed(program) == program
    assert [n.values for n in one.untyped()] == ([] if tools else [[str(packed)]])
    assert other.untyped() == [], "what a result says is of its own files"
    monkeypatch.undo()
    if tools:
        plain = types.variable(program, code(program, "main"), "shard")
        assert list(layout.fields(0, 64)) == list(plain.fields(0, 64))


def code(program: str, name: str) -> int:
    return next(s.address for s in module(program).functions if s.name == name) + 4


def test_a_field_is_named_with_its_path(program) -> None:
    layout = types.variable(program, code(program, "main"), "shard")
    assert (layout.name, layout.size, layout.element) == ("shard", 192, 24)
    found = [(f.offset, f.size, f.path) for f in layout.fields(40, 72)]
    assert found == [(40, 8, "[1].s.hits"), (48, 4, "[2].kind"), (56, 8, "[2].s.misses"),
                     (64, 8, "[2].s.hits")]  # fmt: skip


def test_statics_of_functions_and_thread_locals_have_types(program) -> None:
    for name in ("calls.0", "calls", "own"):
        function = "make" if name == "own" else "main"
        fields = types.variable(program, code(program, function), name).fields(8, 16)
        assert [f.path for f in fields] == ["[1]"]


def test_a_block_has_the_type_that_its_function_points_to(program) -> None:
    layout = types.allocated(program, code(program, "make"), 160)
    assert (layout.name, layout.size) == ("pair", 40)
    assert types.allocated(program, code(program, "make"), 41) is None
    assert types.allocated(program, code(program, "untyped"), 40) is None


def test_what_is_not_known_has_no_type(program, tmp_path) -> None:
    assert types.variable(program, code(program, "main"), "nothing") is None
    assert types.variable(program, 1, "shard") is None
    bare = tmp_path / "bare"
    subprocess.run(["strip", "-o", bare, program], check=True)
    assert types.variable(str(bare), code(program, "main"), "shard") is None


def test_debug_information_in_a_file_of_its_own_is_found(program, tmp_path) -> None:
    bare = tmp_path / "bare"
    keep = ["objcopy", "--only-keep-debug", program, tmp_path / "bare.debug"]
    subprocess.run(keep, check=True)
    link = ["objcopy", "--strip-debug", "--add-gnu-debuglink=bare.debug", program, bare]
    subprocess.run(link, check=True, cwd=tmp_path)
    assert types.variable(str(bare), code(program, "main"), "shard").size == 192
    assert any(s.name == "shard" for s in module(str(bare)).variables), "and so are the symbols"


@pytest.mark.parametrize("build_id", ["sha1", "none"])
def test_debug_information_of_another_build_gives_no_names(tmp_path, build_id) -> None:
    for name, text in (("one", PROGRAM), ("two", PROGRAM.replace("shard[8]", "shard[9]"))):
        (tmp_path / f"{name}.c").write_text(text)
        command = ["gcc", "-g", f"-Wl,--build-id={build_id}", "-o", name, f"{name}.c"]
        subprocess.run(command, cwd=tmp_path, check=True)
    for of in ("one", "two"):  # the link is made to the right file, which is then replaced
        subprocess.run(["objcopy", "--only-keep-debug", of, "kept"], cwd=tmp_path, check=True)
        if of == "one":
            link = ["objcopy", "--strip-all", "--add-gnu-debuglink=kept", of, "bare"]
            subprocess.run(link, cwd=tmp_path, check=True)
            (tmp_path / "also").write_bytes((tmp_path / "bare").read_bytes())
            assert any(s.name == "shard" for s in module(str(tmp_path / "bare")).variables)
    assert not any(s.name == "shard" for s in module(str(tmp_path / "also")).variables)


def evidence(*touched: tuple[int, int]) -> Evidence:
    """A line of which thread 1 writes the first bytes, thread 2 the next ones."""
    found = Evidence(LinePlace((1,), 1), 1, 64)
    for tid, (at, size) in enumerate(touched, 1):
        found.touch(tid, at, size, True, 0)
    return found


def test_elements_of_an_array_get_lines_of_their_own(program) -> None:
    layout = types.variable(program, code(program, "main"), "shard")
    fields = fields_on(layout, 64, "shard", 64)
    assert fields[2] == FieldBytes(offset=16, bytes=8, name="shard[0].s.hits")
    found = separated(layout, 64, fields, evidence((16, 8), (40, 8)))
    assert found == LayoutAdvice(
        type="shard", bytes_before=24, bytes_after=128, count=8, aligned=[], language="c",
        members=["int kind"], own_name="shard",
    )  # fmt: skip
    assert advised_text(found, None) == (
        "alignas(128) on shard: shard grows from 24 to 128 bytes, 8 elements, 832 bytes of memory "
        "in all"
    )


def test_fields_have_weights_where_every_access_is_seen(program) -> None:
    """They had none, so that the most used of many was not named."""
    layout = types.variable(program, code(program, "main"), "shard")
    fields = Fields(SimpleNamespace(code=None, layout=lambda *_: layout),
                    SimpleNamespace(arch="x86_64"))  # fmt: skip
    e, shard = Evidence(LinePlace((1,), 1), 1, 64), Object("static", symbol="shard", start=64)
    e.accesses = 100
    e.used_at = Counter(dict.fromkeys(range(16, 24), 10) | dict.fromkeys(range(40, 48), 90))
    found, _ = fields.of(e, [shard], separate=False)
    shares = {f.name: f.share for f in found if f.share}
    assert shares == {"shard[0].s.hits": 0.1, "shard[1].s.hits": 0.9}


def test_fields_of_one_structure_are_parted_where_the_thread_changes(program) -> None:
    layout = types.allocated(program, code(program, "make"), 160)
    fields = fields_on(layout, 64, "pair", 64)
    found = separated(layout, 64, fields, evidence((0, 8), (8, 8)))
    assert (found.aligned, found.bytes_before, found.bytes_after) == (["pair.tail"], 40, 256)
    apart = separated(layout, 64, fields, evidence((0, 8), (24, 8)))
    assert (apart.aligned, apart.starts) == (["pair.more[1]"], [24])


def test_an_object_that_begins_before_the_line_is_parted_from_there(program) -> None:
    """Its first part reaches into the line: 8 bytes of 16."""
    layout = types.allocated(program, code(program, "make"), 160)
    fields = fields_on(layout, 56, "pair", 64)
    found = separated(layout, 56, fields, evidence((0, 8), (8, 8)))
    assert (found.starts, found.bytes_after) == ([16], 256)


def test_memory_grows_by_what_the_parts_need() -> None:
    """What follows a part that is moved follows it onto its line."""
    advice = LayoutAdvice(
        type="t", bytes_before=248, bytes_after=248, count=2, aligned=["t.b"], starts=[120]
    )
    assert advice.at(128).bytes_after == 256


def test_the_picture_of_a_line() -> None:
    one = Touch(thread=7, name="", bytes=[(0, 8)], writes=True, reads=False)
    two = Touch(thread=8, name="", bytes=[(4, 8)], writes=False, reads=True)
    assert picture([one, two]).startswith("1111****2222............")
    fields = [FieldBytes(offset=0, bytes=8, name="a.head")]
    hot = line(touches=[one], threads=1, fields=fields)
    assert bytes_text(hot) == ["bytes 0-7 (a.head): thread 7 writes"]


def test_code_that_is_mapped_once_more_has_its_own_names(program) -> None:
    """V8 maps a part of its file again, far from the first one."""
    found = next(s for s in module(program).functions if s.name == "main")
    offset, size, begin, _ = next(s for s in module(program).segments if s[2] <= found.address
                                  < s[2] + s[1])  # fmt: skip
    spaces = Spaces()
    more = dict(time_ns=0, pid=1, device=1, inode=os.stat(program).st_ino, path=program,
                writable=False, shared=False)  # fmt: skip
    for start in (0x10000 + begin, 0x7F0000000000):
        spaces.mapping(Map(start=0x10000, length=4096, offset=0, executable=False, **more))
        spaces.mapping(Map(start=start, length=size, offset=offset, executable=True, **more))
        where = Names(spaces).where(1, start + found.address - begin)
        assert where == (program, found.address)


def test_functions_of_a_jit_compiler_have_the_names_it_lists(monkeypatch, tmp_path) -> None:
    spaces = Spaces()
    where = dict(offset=0, device=0, inode=0, path="", executable=True, writable=True, shared=False)
    spaces.mapping(Map(time_ns=0, pid=4711, start=0x10000, length=0x1000, **where))
    listed = tmp_path / "perf-4711.map"
    listed.write_text(
        "0x0000000000010010 0x0000000000000020 int Counter.add(int)\nno line\n10040 8 other\n"
    )
    monkeypatch.setattr(spaces.store, "here", lambda path: str(tmp_path / os.path.basename(path)))
    assert Names(spaces).name(4711, 0x10018).function == "int Counter.add(int)"
    assert Names(spaces).extent(4711, 0x10018) == ("", 0x10010)
    assert "without a file" in Names(spaces).name(4711, 0x10050).function
    with listed.open("a") as more:  # code that was there before is no more
        more.write("10000 18 early\n10018 100 Late.one()\n10018 30 Late.two()\n")
    names = {at: Names(spaces).name(4711, at).function for at in range(0x10000, 0x10060, 8)}
    assert names[0x10010] == "early" and names[0x10018] == names[0x10040] == "Late.two()"
    assert "without a file" in names[0x10048], "of the one before nothing is left"
    spaces.mapping(Map(time_ns=1, pid=4711, start=0x10000, length=0x1000, **where | {
        "executable": False}))  # fmt: skip
    assert Names(spaces).is_code(4711, 0x10040), "V8 closes its code at the end"
    assert not Names(spaces).is_code(4711, 0x10048)
    spaces.began_s = listed.stat().st_mtime + 5  # left by an earlier process of that number
    assert "without a file" in Names(spaces).name(4711, 0x10018).function


def test_the_most_used_fields_are_named_and_threads_by_their_names() -> None:
    """A ring whose two hot words lie behind five cold ones."""
    shares = [0.0, 0.0, 0.01, 0.0, 0.02, 0.57, 0.4]
    fields = [
        FieldBytes(offset=8 * n, bytes=8, name=f"ring.f{n}", share=share)
        for n, share in enumerate(shares)
    ]
    touches = [
        Touch(thread=7, name="server", bytes=[(0, 56)], writes=True, reads=False),
        Touch(thread=8, name="worker", bytes=[(0, 56)], writes=True, reads=False),
    ]
    (said,) = bytes_text(line(touches=touches, fields=fields), "server")
    assert said == (
        "bytes 0-55 (ring.f5, ring.f6, ring.f4, ring.f2 and 3 more): threads 7 (server) "
        "8 (worker) write"
    )
    reads = msgspec.structs.replace(touches[1], name="server", writes=False)
    said = bytes_text(line(touches=[touches[0], reads]), "server")
    assert said == ["bytes 0-55: thread 7 writes, thread 8 reads"]
    alike = [touches[0], msgspec.structs.replace(touches[1], name="server")]
    assert bytes_text(line(touches=alike), "server") == ["bytes 0-55: threads 7 8 write"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "std::thread::_State_impl<std::thread::_Invoker<std::tuple<Pool::start(int, "
            "std::vector<int, std::allocator<int> >&)::{lambda()#1}> > >::_M_run()",
            "lambda in Pool::start(int, std::vector<int, std::allocator<int> >&)",
        ),
        ("std::thread::_State_impl<std::tuple<main::'lambda0'()> >::_M_run()", "lambda in main"),
        ("program::main::{{closure}}::{{closure}}", "closure in program::main"),
        ("program::run::{closure#0}", "closure in program::run"),
        ("std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::$_0> > >::_M_run()",
         "lambda in main"),
        ("std::_Function_handler<void (int), run(char**)::{lambda(int)#2}>::_M_invoke("
         "std::_Any_data const&, int&&)", "lambda in run(char**)"),
        ("std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)(int), int> > >"
         "::_M_run()",) * 2,
        ("main::{lambda(int)#1}::operator()(int) const",) * 2,
    ],
)  # fmt: skip
def test_a_lambda_is_named_by_where_it_stands(name: str, said: str) -> None:
    assert function_text(name) == said
