"""The documentation holds together: links lead somewhere, files that it names exist, command lines that it shows
parse."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from linewright.cli import app
from linewright.plans import built_in
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
ROOMS = "|".join(
    (
        "bench",
        "cmake",
        "docs",
        "examples",
        "include",
        "linewright",
        "probe",
        "scripts",
        "src",
        "tests",
        "torture",
        "verify",
        "wire",
        "workload",
        "model",
        "find",
        "machines",
    )
)
FILE = re.compile(rf"^(?:\./)?((?:{ROOMS})/[\w./+-]*)$")
PLACEHOLDER = re.compile(r"(^|[/-])(AREA|ARCH|FAMILY|NAME|PLAN|PRESET)([/.]|$)")
COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?linewright (?=[a-z-])")
COMMANDS = typer.main.get_command(app).commands
OWN = {"--help"} | {option for parameter in typer.main.get_command(app).params for option in parameter.opts}
# What these take is parsed by a C++ program of ours, whose source names its options.
PASSED_ON = {"workload": "workload/request.cpp", "probe": "probe/main.cpp"}
# Where the installed package has what no checkout holds.
INSTALLED = ("linewright/bin/",)


def prose(text: str) -> str:
    return FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """The names that a page's headings can be linked to by, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).replace(" ", "-") for heading in headings}


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
            and not PLACEHOLDER.search(named[1])
            and not (ROOT / named[1]).exists()
            and not (ROOT / "include" / named[1]).exists()
        ):
            yield span


def command_lines(text: str) -> Iterator[str]:
    """Lines of code blocks that call the command, continued ones joined, and code spans, which become a synopsis
    (` …`)."""
    blocks = [block.split("\n", 1)[1].rsplit("\n", 1)[0] for block in FENCE.findall(text)]
    blocks += re.findall(r"(?:^    .*\n?)+", prose(text), re.MULTILINE)
    lines = [line.strip() for block in blocks for line in re.sub(r"\\\n\s*", " ", block).split("\n")]
    for line in lines + [f"{span} …" for span in SPAN.findall(prose(text))]:
        for part in re.split(r" && |; (?=linewright)|\| (?=linewright)", line):
            if COMMAND.match(part):
                yield part


def complaint(line: str) -> str:
    """Why the command would refuse a line, empty if it would not. A synopsis (`[…]`, `…`) need only name real
    options."""
    name, _, rest = COMMAND.sub("", line, count=1).partition(" ")
    synopsis = line.endswith(" …") or (re.search(r"…|\.\.\.|\[", rest) and "'" not in rest)
    if name.startswith("-"):
        return "" if name in OWN else f"no option {name}"
    if name not in COMMANDS:
        return f"no command {name}"
    if name in PASSED_ON:
        own = " ".join(option for parameter in COMMANDS[name].params for option in parameter.opts)
        known = (ROOT / PASSED_ON[name]).read_text() + own
        return ", ".join(
            f"no option {option}" for option in re.findall(r"(?<!\S)--[a-z][\w-]*", rest) if option not in known
        )
    if synopsis:
        options = {name for parameter in COMMANDS[name].params for name in (*parameter.opts, *parameter.secondary_opts)}
        ours = rest.partition(" -- ")[0]
        return ", ".join(
            f"no option {option}"
            for option in re.findall(r"--[a-z][a-z-]*", ours)
            if option not in options | {"--help"}
        )
    command = COMMANDS[name]
    if hasattr(command, "commands"):
        inner, _, rest = rest.partition(" ")
        if inner not in command.commands:
            return f"no command {name} {inner}"
        command = command.commands[inner]
    try:
        arguments = re.split(r" (?:[12]?>|<|\|) ?", rest)[0] if "'" not in rest else rest
        command.make_context(name, shlex.split(arguments, comments=True))
    except (typer.Exit, SystemExit):
        return ""
    except Exception as refusal:  # the usage errors of Typer and of the Click that it carries
        if not hasattr(refusal, "format_message"):
            raise
        return refusal.format_message()
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name):
    page = ROOT / name
    assert list(broken_links(page, page.read_text())) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_file_named_exists(name):
    assert list(missing_files((ROOT / name).read_text())) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_line_parses(name):
    refused = {line: why for line in command_lines((ROOT / name).read_text()) if (why := complaint(line))}
    assert refused == {}


def test_every_command_and_plan_has_its_line():
    """Every command in its table, every built-in plan in its own."""
    commands = (ROOT / "docs/reference/commands.md").read_text()
    assert [name for name in COMMANDS if f"| `{name}` |" not in commands] == []
    plans = (ROOT / "docs/reference/plans.md").read_text()
    assert [name for name in built_in() if f"| `{name}` |" not in plans] == []


def test_every_page_is_reached_from_the_index():
    index = (ROOT / "docs/README.md").read_text()
    linked = {(ROOT / "docs" / target.partition("#")[0]).resolve() for target in LINK.findall(index)}
    assert [
        page for page in PAGES if ROOT / "docs" in page.parents and page.name != "README.md" and page not in linked
    ] == []


LOOKED_FOR = {
    "the arm64 `prfm`": ("lw_prfm_strm_ldadd_u64",),
    "what makes a cell metastable": ("def with_modes", "FEWEST_MODES ="),
    "how a read lock leads": ("LW__SRCU_READER(lw_srcu_read_lock_fast,", "flip"),
    "how `LINEWRIGHT_ATOMICS`": ("prefetch",),
    "the rseq compare-and-swap": ("LW__SEQ_VALUE(cmpxchg", "define LW__SEQ_VALUE"),
    "a sentence of the verdict": ("Sentence(lead=",),
}
"""What the files hold that the table of look-ups in CONTRIBUTING.md sends a newcomer to, in its order."""


def test_a_newcomer_finds_it_in_at_most_two_files():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text[text.index("| you look for |") : text.index("## Rooms")]
    rows = {row[0].strip(): row[1:] for line in table.splitlines() if (row := line.strip("|").split("|"))}
    for start, wanted in LOOKED_FOR.items():
        (row,) = (row for name, row in rows.items() if name.startswith(start))
        files = SPAN.findall(" ".join(row))
        assert 1 <= len(files) <= 2, start
        texts = "".join((ROOT / file).read_text() for file in files)
        assert [what for what in wanted if what not in texts] == [], start
    for heading in re.findall(r"\[below\]\(#([\w-]+)\)", table):
        assert heading in anchors(text)


def rooms_used(room: Path, rooms: set[str]) -> set[str]:
    """The other rooms whose modules or headers a room's files include or import."""
    used: set[str] = set()
    for file in room.rglob("*"):
        if file.suffix == ".py":
            names = re.findall(r"^ *(?:from|import) (linewright(?:\.\w+)+)", file.read_text(), re.MULTILINE)
            inner = re.findall(r"^ *from linewright import (.+)", file.read_text(), re.MULTILINE)
            names += [f"linewright.{name.strip()}" for line in inner for name in line.split(",")]
            used |= {"/".join(name.split(".")[:2]) for name in names}
        elif file.suffix in (".c", ".h", ".cpp", ".hpp"):
            heads = re.findall(r"^# *include [<\"]([\w-]+)/", file.read_text(), re.MULTILINE)
            used |= {"include" if head == "linewright" else head for head in heads}
    return used & rooms - {str(room.relative_to(ROOT))}


def test_the_picture_of_the_house_is_the_code():
    text = (ROOT / "docs/house.md").read_text()
    table = text[text.index("| room | concern | uses |") :]
    rows = {
        row[1].strip(" `"): set(SPAN.findall(row[3])) for line in table.splitlines() if (row := line.split("|"))[4:]
    }
    rooms = {name: uses for name, uses in rows.items() if (ROOT / name).is_dir()}
    inside = {f"linewright/{path.name}" for path in (ROOT / "linewright").iterdir() if (path / "__init__.py").exists()}
    assert inside <= set(rooms), inside - set(rooms)
    for name, uses in rooms.items():
        assert rooms_used(ROOT / name, set(rooms)) == uses, name
    mutual = [(a, b) for a in rooms for b in rooms if a < b and b in rooms[a] and a in rooms[b]]
    assert len(mutual) == 4, mutual  # as the page says


def test_the_glossary_names_what_exists():
    """Every code span of the glossary occurs in the code, so a renamed thing is renamed there too."""
    text = (ROOT / "docs/glossary.md").read_text()
    spans = {re.sub(r"[*…<>() ].*", "", span).strip("_") for span in SPAN.findall(text)}
    gone = []
    for span in sorted(spans):
        if len(span) < 3 or span.startswith(("docs/", "LINEWRIGHT_")) or (ROOT / span).exists():
            continue
        found = subprocess.run(["git", "grep", "-qF", "--", span, ":!docs", ":!*.md"], cwd=ROOT)
        if found.returncode:
            gone.append(span)
    assert gone == []


def test_mistakes_are_found(tmp_path):
    """The checks above, on a page in which everything is wrong."""
    page = tmp_path / "page.md"
    text = (
        "# One heading\n\n[a](gone.md) [b](#no-heading) [c](#one-heading) `src/gone.c` `src/srcu`"
        " `linewright/atomic.h`\n"
    )
    assert list(broken_links(page, text)) == ["gone.md: there is no such file", "#no-heading: there is no such heading"]
    assert list(missing_files(text)) == ["src/gone.c"]
    shown = (
        "    linewright measure --zzz quick\n    linewright shaw a.jsonl\n\n```\n$ linewright workload ticket"
        " --treads 2 \\\n   -c 3\n```\n"
    )
    assert [complaint(line) for line in command_lines(shown)] == [
        "no option --treads",
        "No such option: --zzz",
        "no command shaw",
    ]
    assert not any(complaint(line) for line in command_lines("    linewright trial --runs 3 -- ./a --zzz   # why\n"))
