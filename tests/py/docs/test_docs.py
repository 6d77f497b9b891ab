# SPDX-License-Identifier: MIT
"""The documentation holds together: links lead somewhere, files that it names exist, command lines
that it shows parse."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from linewright.plans import built_in
from linewright.schema import Context, Record
from linewright.wings import PACKAGE
from support import machines
from support.analysis_samples import write
from support.command_lines import COMMAND, COMMANDS, complaint
from support.places import ROOT

PAGES = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if (ROOT / name).exists()
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
# What `make` leaves in a checkout is no room: whether it is there says nothing about a page.
MADE = {"build", "dist", "results"}
ROOMS = "|".join(
    re.escape(path.name) for path in ROOT.iterdir() if path.is_dir() and path.name not in MADE
)
FILE = re.compile(rf"^(?:\./)?((?:{ROOMS})/[\w./+-]*)$")
PLACEHOLDER = re.compile(r"(^|[/-])(AREA|ARCH|FAMILY|NAME|PLAN|PRESET)([/.]|$)")
# Where the installed package has what no checkout holds.
INSTALLED = ("linewright/bin/",)


def prose(text: str) -> str:
    return FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """The names that a page's headings can be linked to by, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).replace(" ", "-")
        for heading in headings
    }


def broken_links(page: Path, text: str) -> Iterator[str]:
    for target in LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        if aim == page:
            found = anchors(text)
        else:
            found = anchors(aim.read_text()) if aim.suffix == ".md" and aim.exists() else set()
        if aim != page and not aim.exists():
            yield f"{target}: there is no such file"
        elif anchor and anchor not in found:
            yield f"{target}: there is no such heading"


def missing_files(text: str) -> Iterator[str]:
    """Files of the checkout that code spans name; a header may be named as it is included."""
    for span in SPAN.findall(prose(text)):
        named = FILE.match(span.strip("<>"))
        if (
            named
            and not named[1].startswith(INSTALLED)
            and not named[1].endswith(".o")  # Linux's, whose folder `kernel` has the name of ours
            and not PLACEHOLDER.search(named[1])
            and not (ROOT / named[1]).exists()
            and not (ROOT / "include" / named[1]).exists()
        ):
            yield span


def command_lines(text: str) -> Iterator[str]:
    """Lines of code blocks that call the command, continued ones joined, and code spans, which
    become a synopsis (` …`)."""
    blocks = [block.split("\n", 1)[1].rsplit("\n", 1)[0] for block in FENCE.findall(text)]
    blocks += re.findall(r"(?:^    .*\n?)+", prose(text), re.MULTILINE)
    lines = [
        line.strip() for block in blocks for line in re.sub(r"\\\n\s*", " ", block).split("\n")
    ]
    for line in lines + [f"{span} …" for span in SPAN.findall(prose(text))]:
        for part in re.split(r" && |; (?=linewright)|\| (?=linewright)", line):
            if COMMAND.match(part):
                yield part


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name):
    page = ROOT / name
    assert list(broken_links(page, page.read_text())) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_file_named_exists(name):
    assert list(missing_files((ROOT / name).read_text())) == []


def rows_without_file_or_test(text: str) -> Iterator[str]:
    """Rows of the tables of files and tests in which one of the two is no file that is there, nor
    `the same` as that of the row above. A row of what is not here says `none`."""
    tests = {path.name for path in (ROOT / "tests").rglob("*") if "test" in path.name}

    def there(span: str) -> bool:
        named = FILE.match(span)
        return (ROOT / named[1]).exists() if named else span in tests

    for table in re.findall(r"^\|.*\| file \| test \|\n(?:\|.*\n)+", text, re.MULTILINE):
        for line in table.splitlines()[2:]:
            file, test = line.strip("| ").split(" | ")[1:3] if "| none" not in line else ("", "")
            for cell in filter(None, (file, test)):
                if not cell.startswith("the same") and not any(map(there, SPAN.findall(cell))):
                    yield line


def test_every_row_of_the_published_systems_has_its_file_and_its_test():
    text = (ROOT / "docs/experiments.md").read_text()
    assert text.count("| file | test |") == 5 and list(rows_without_file_or_test(text)) == []


def unknown_classes(text: str) -> list[str]:
    """Spans with a class's name that no module of the package defines."""
    defined = {
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)
    }
    named = (span for span in SPAN.findall(text) if re.fullmatch(r"([A-Z][a-z]+)+", span))
    return [span for span in named if span not in defined]


def test_the_classes_that_the_house_names_exist():
    page = (ROOT / "docs/house.md").read_text()
    assert unknown_classes(page) == []
    assert unknown_classes(page.replace("`Contrast`", "`Judged`")) == ["Judged"]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_line_parses(name):
    refused = {
        line: why for line in command_lines((ROOT / name).read_text()) if (why := complaint(line))
    }
    assert refused == {}


ELSEWHERE = ("--on", "--resume", "--from", "-o", "--output")
"""Options of `measure` that name machines, and files that a page's reader has."""
FEWER_CPUS = re.compile(r"pinned threads, but \d+ CPUs? to pin them to")
READING = (
    "show",
    "advise",
    "compare",
    "report",
    "list",
    "model machines",
    "inspect",
)
"""Commands that need nothing but files."""


def without_machines(line: str) -> list[str]:
    """The words of a line as it can run here: a measurement is planned, here or on a described
    machine, and what is inspected is this Python."""
    words = shlex.split(re.split(r" (?:>|\||\|\|) ", line)[0], comments=True)
    if words[0] == "inspect":
        return [words[0], *(w if w.startswith("--") else sys.executable for w in words[1:])]
    if words[0] != "measure":
        return words
    kept, rest = [], iter(words)
    for word in rest:
        value = next(rest) if word in ELSEWHERE else ""
        if not value or value.startswith("model:"):
            kept += [word, value] if value else [word]
    return [*kept, "--dry-run"]


def lay_out(folder: Path, words: list[str]) -> None:
    """The files that a line reads, where none lies yet."""
    for before, word in pairwise(words):
        path = folder / word
        given = before not in ("-o", "--output") and path.suffix in (".json", ".jsonl")
        if given and not path.exists():
            path.parent.mkdir(exist_ok=True)
            shutil.copy(folder / "laid" / "records.jsonl", path)


def distinct() -> dict[str, str]:
    """The pages' lines that need no other machine. All files hold the same records: what differs in
    their names alone is one line, as the first page has it."""
    lines = {}
    for name in NAMES:
        for shown in command_lines((ROOT / name).read_text()):
            line = COMMAND.sub("", shown).partition(" |")[0]
            if line.startswith(("measure", *READING)) and not re.search(
                "…|/FORM/|compare.* --measure", line
            ):
                words = " ".join(without_machines(line))
                lines.setdefault(re.sub(r"[\w./-]+\.jsonl?\b", "FILE", words), line)
    return lines


LINES = sorted(distinct().values())


@pytest.mark.slow
def test_every_command_line_that_needs_no_other_machine_runs(real) -> None:
    """Every measurement of a page can be planned, and what reads files reads such ones."""
    laid = real.directory / "laid"
    laid.mkdir()
    values = machines.records("arm64-far")
    contexts = [value for value in values if isinstance(value, Context)]
    write(laid / "records.jsonl", contexts, [v for v in values if isinstance(v, Record)])
    shutil.copy(ROOT / "machines/arm64-server-2025.toml", real.directory / "mine.toml")
    refused = {}
    for line in LINES:
        words = without_machines(line)
        lay_out(real.directory, words)
        answer = real(*words)
        if answer.returncode not in (0, 1) and not FEWER_CPUS.search(answer.stderr):
            refused[line] = answer.stderr
    assert refused == {}


SHOWN = [
    name
    for name in NAMES
    if name.startswith(
        ("README", "PACKAGE", "docs/experiments", "docs/guide", "docs/users", "docs/library")
    )
]
"""Pages whose lines a reader types."""
LONG_S = 20.0
SAYS_HOW_LONG = re.compile(
    r"--budget|# .*\b(\d+ (s|min)|(half a|a|one|two|three|four|five) minutes?|the same)\b"
)
DOES_NOT_MEASURE = ("--dry-run", "--from", "--resume")


def without_duration(text: str) -> list[str]:
    """Measurements of a page that may take long and do not say how long."""
    found = []
    for line in command_lines(text):
        words = shlex.split(COMMAND.sub("", line), comments=True)
        if "…" in line or words[0] != "measure" or {*DOES_NOT_MEASURE} & {*words}:
            continue
        plan = words[words.index("--plan") + 1] if "--plan" in words else "quick"
        long = plan not in built_in() or built_in()[plan].budget_s > LONG_S
        if long and not SAYS_HOW_LONG.search(line):
            found.append(line)
    return found


@pytest.mark.parametrize("name", SHOWN)
def test_a_measurement_says_how_long_it_takes(name: str) -> None:
    assert without_duration((ROOT / name).read_text()) == []


def test_every_command_and_plan_has_its_line():
    """Every command in its table, every built-in plan in its own."""
    commands = (ROOT / "docs/reference/commands.md").read_text()
    assert [name for name in COMMANDS if f" | `{name}` |" not in commands] == []
    plans = (ROOT / "docs/reference/plans.md").read_text()
    assert [name for name in built_in() if f"| `{name}` |" not in plans] == []


def test_every_page_is_reached_from_the_index():
    index = (ROOT / "docs/README.md").read_text()
    linked = {
        (ROOT / "docs" / target.partition("#")[0]).resolve() for target in LINK.findall(index)
    }
    assert [
        page
        for page in PAGES
        if ROOT / "docs" in page.parents and page.name != "README.md" and page not in linked
    ] == []


def rooms_used(room: Path, rooms: set[str]) -> set[str]:
    """The other rooms whose headers a room's files include."""
    used: set[str] = set()
    for file in room.rglob("*"):
        if file.suffix in (".c", ".h", ".cpp", ".hpp"):
            heads = re.findall(r"^# *include [<\"]([\w-]+)/", file.read_text(), re.MULTILINE)
            used |= {"include" if head == "linewright" else head for head in heads}
    return used & rooms - {room.name}


def test_the_page_of_the_house_is_the_code():
    """Its table of rooms in C and C++ against the includes, that of Python against the folders."""
    text = (ROOT / "docs/house.md").read_text()
    c_rooms = text[text.index("| room | concern | uses |") :].partition("\n\n")[0]
    rows = {
        SPAN.findall(row[1])[0]: set(SPAN.findall(row[3]))
        for line in c_rooms.splitlines()
        if (row := line.split("|"))[4:] and SPAN.findall(row[1])
    }
    rooms = {name: uses for name, uses in rows.items() if (ROOT / name).is_dir()}
    for name, uses in rooms.items():
        assert rooms_used(ROOT / name, set(rooms)) == uses, name
    for path in (ROOT / "linewright").iterdir():
        if (path / "__init__.py").exists():
            assert f"`linewright/{path.name}`" in text, path.name


def test_the_glossary_names_what_exists():
    """Every code span of the glossary occurs in the code, so a renamed thing is renamed there
    too."""
    text = (ROOT / "docs/glossary.md").read_text()
    spans = {re.sub(r"[*…<>() ].*", "", span).strip("_") for span in SPAN.findall(text)}
    files = ["git", "grep", "-hI", "", "--", ":!docs", ":!*.md"]
    found = subprocess.run(files, cwd=ROOT, capture_output=True, check=True)
    code = found.stdout.decode(errors="replace")
    assert [
        span
        for span in sorted(spans)
        if len(span) > 2
        and not span.startswith(("docs/", "LINEWRIGHT_"))
        and not (ROOT / span).exists()
        and span not in code
    ] == []


def test_mistakes_are_found(tmp_path):
    """The checks above, on a page in which everything is wrong."""
    page = tmp_path / "page.md"
    text = (
        "# One heading\n\n[a](gone.md) [b](#no-heading) [c](#one-heading) `src/gone.c` `src/srcu`"
        " `linewright/atomic.h`\n"
    )
    assert list(broken_links(page, text)) == [
        "gone.md: there is no such file",
        "#no-heading: there is no such heading",
    ]
    assert list(missing_files(text)) == ["src/gone.c"]
    rows = (
        "| a | `kmod/` | `test_docs.py` |",
        "| b | the same | `test_gone.py` |",
        "| c | none | |",
    )
    table = "\n".join(("| x | file | test |", "| --- | --- | --- |", *rows, ""))
    assert list(rows_without_file_or_test(table)) == [rows[1]]
    shown = (
        "    linewright measure --zzz quick\n    linewright shaw a.jsonl\n\n```\n$ linewright "
        "workload ticket"
        " --treads 2 \\\n   -c 3\n```\n"
    )
    assert [complaint(line) for line in command_lines(shown)] == [
        "no option --treads",
        "No such option: --zzz",
        "no command shaw",
    ]
    assert without_duration("    linewright measure --plan rmw\n") != []
    assert not any(
        complaint(line)
        for line in command_lines("    linewright trial --runs 3 -- ./a --zzz   # why\n")
    )
