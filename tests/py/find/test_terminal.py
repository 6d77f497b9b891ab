# SPDX-License-Identifier: MIT
"""Terminals: how far sampling is, and what stays where there is little room."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from linewright.find.result_document import document
from linewright.find.sampled_machine import SamplingProgress
from linewright.show.terminal import print_tables
from support import find_results


class Terminal:
    """Standard error that is a terminal or none."""

    def __init__(self, is_one: bool) -> None:
        self.written, self.encoding, self._is_one = "", "utf-8", is_one

    def isatty(self) -> bool:
        return self._is_one

    def write(self, text: str) -> None:
        self.written += text

    def flush(self) -> None:
        pass


def shown(monkeypatch, started: bool, seconds: float | None, terminal: bool = True) -> str:
    """What standard error holds while ten seconds pass."""
    now, error = [0.0], Terminal(terminal)
    monkeypatch.setattr(sys, "stderr", error)
    monkeypatch.setenv("TERM", "xterm")
    meter = SamplingProgress(started, seconds, lambda: now[0])
    with meter:
        for number in range(11):
            now[0] = float(number)
            meter.show(SimpleNamespace(samples=[None] * (1000 * number)))
        return error.written


def test_a_started_program_has_a_whole_line_every_few_seconds(monkeypatch):
    lines = shown(monkeypatch, True, None).splitlines()
    assert lines == ["sampling: 5.0 s, 5,000 samples", "sampling: 10 s, 10,000 samples"]


def test_a_running_process_has_one_line_with_its_end(monkeypatch):
    said = shown(monkeypatch, False, 15.0)
    assert "3.0 s of 15 s, 3,000 samples" in said and "\n" not in said


def test_nothing_is_written_where_no_terminal_is(monkeypatch):
    assert shown(monkeypatch, True, None, terminal=False) == ""
    assert shown(monkeypatch, False, 15.0, terminal=False) == ""


@pytest.mark.parametrize(
    ("columns", "headings"),
    [(100, "time kind threads what"), (60, "time kind what"), (40, "time what")],
)
def test_a_narrow_screen_keeps_the_variables_name(columns, headings):
    shared = [find_results.line(object=f"planted_counter_{n}") for n in range(3)]
    console = Console(width=columns, file=io.StringIO())
    print_tables(document(find_results.result(*shared)), console)
    table = console.file.getvalue().split("\n\n")[1]
    assert " ".join(table.splitlines()[0].split()) == headings
    assert all(f"planted_counter_{n}" in "".join(table.split()) for n in range(3))
    assert max(map(len, table.splitlines())) <= columns
