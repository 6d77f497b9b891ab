"""perf's text in three layouts of c2c and two of single accesses: headings decide, damage is one
line."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linewright.errors import LinewrightError, UserError
from linewright.find import perf_import, perf_text
from linewright.find.sharing_schema import Result
from support.places import DATA

FILES = ("c2c-5", "c2c-6", "c2c-peer", "script", "mem")


def text(name: str) -> str:
    return (DATA / "find" / f"{name}.txt").read_text()


def result(name: str) -> Result:
    return perf_import.result_of(perf_text.parse(text(name)), name)


@pytest.mark.parametrize(
    ("name", "layout"),
    [("c2c-5", "perf c2c (HITM, up to 5.x)"), ("c2c-6", "perf c2c (HITM, 6.x)"),
     ("c2c-peer", "perf c2c (peer snoop)"),
     ("script", "perf script"), ("mem", "perf mem")],
)  # fmt: skip
def test_each_layout_is_known_by_its_headings(name: str, layout: str) -> None:
    assert perf_text.parse(text(name)).layout == layout


def test_threads_and_bytes_where_the_table_has_them() -> None:
    false, true = result("c2c-5").lines
    assert (false.address, false.kind, false.accesses) == (0x555500010080, "false", 200)
    assert {t.thread: (t.bytes, t.writes) for t in false.touches} == {
        4712: ([(8, 1)], False), 4713: ([(8, 1)], False), 4714: ([(16, 1)], True)}  # fmt: skip
    assert (true.kind, true.accesses) == ("true", 100)


def test_sites_carry_symbol_object_and_source() -> None:
    site = result("c2c-5").lines[0].sites[0]
    assert (site.function, site.module, site.source, site.accesses) == (
        "count",
        "server",
        "count.c:30",
        1000,
    )


def test_without_threads_loads_are_held_against_stores() -> None:
    found = result("c2c-6")
    assert found.lines[0].kind == "true"  # offset 0x20 is stored, and loaded from elsewhere
    assert found.lines[0].accesses == 200
    assert any("threads" in b for b in found.blind)


def test_without_stores_nothing_is_said_of_written_bytes() -> None:
    found = result("c2c-peer")
    assert [(line.kind, line.accesses) for line in found.lines] == [("unknown", 112), ("true", 50)]
    assert any("stores" in b for b in found.blind)


def test_single_accesses_of_perf_script() -> None:
    found = result("script")
    assert [(line.address, line.kind) for line in found.lines] == [(0x55550001000, "false")]
    assert found.lines[0].touches[0].name == "false share"


def test_single_accesses_of_perf_mem() -> None:
    found = result("mem")
    assert [(line.address, line.kind, line.accesses) for line in found.lines] == [
        (0x55550001000, "true", 1)
    ]


def test_a_moved_column_is_still_the_same_column() -> None:
    """The same table with every column three characters further to the right."""
    wider = "\n".join(
        line[:8] + "   " + line[8:] if len(line) > 60 and "-" * 20 not in line else line
        for line in text("c2c-6").splitlines()
    )
    assert wider != text("c2c-6")
    found = perf_import.result_of(perf_text.parse(wider), "")
    assert (found.lines[0].kind, found.lines[0].accesses) == ("true", 200)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("", "not a text of perf"),
        ("hello\nworld\n", "not a text of perf"),
        ("      Shared Cache Line Distribution Pareto\n", "no headings"),
        ("# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL\n", "no access in it"),
    ],
)
def test_what_is_no_report_is_refused(broken: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        perf_text.parse(broken)


def test_perfs_binary_file_is_named_as_such(tmp_path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(b"PERFILE2" + bytes(100))
    with pytest.raises(UserError, match=r"a perf\.data file"):
        perf_text.read(str(path))


@settings(
    suppress_health_check=[HealthCheck.too_slow]
)  # the first letter drawn reads all of Unicode: 7 s on a busy machine
@given(st.sampled_from(FILES), st.data())
def test_damaged_text_is_a_result_or_one_line(name: str, data: st.DataObject) -> None:
    lines = text(name).splitlines()
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(lines) - 1))
        kind = data.draw(st.sampled_from(["cut", "drop", "swap", "noise", "twice"]))
        if kind == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, max(1, len(lines[at]))))]
        elif kind == "drop" and len(lines) > 1:
            del lines[at]
        elif kind == "swap":
            lines[at], lines[0] = lines[0], lines[at]
        elif kind == "noise":
            lines[at] += data.draw(st.text(max_size=40))
        else:
            lines.insert(at, lines[at])
    try:
        assert isinstance(perf_import.result_of(perf_text.parse("\n".join(lines)), "x"), Result)
    except LinewrightError as error:
        assert "\n" not in str(error)


@given(st.text(max_size=300))
def test_any_text_is_refused_in_one_line_or_read(any_text: str) -> None:
    try:
        perf_text.parse(f"{any_text}\n|OP LOAD|{any_text}\n")
    except LinewrightError as error:
        assert "\n" not in str(error)


def test_a_line_made_to_take_for_ever_does_not() -> None:
    hostile = " ".join(["a"] * 200_000) + "|OP LOAD|SNP HitM|" + "f" * 100_000
    with pytest.raises(UserError):
        perf_text.parse(hostile)


def test_the_command_imports(run) -> None:
    done = run("--import", DATA / "find" / "c2c-5.txt")
    assert done.returncode == 0 and "2 lines travel" in done.stdout and "blind to:" in done.stdout
    titles = [line for line in done.stdout.splitlines() if line.startswith(("1 line", "2 line"))]
    assert [title.count("0x") for title in titles[1:]] == [1, 1], titles
    assert run("--import", "/no/such/file").returncode == 2
