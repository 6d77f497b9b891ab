# SPDX-License-Identifier: MIT
"""The `linewright` command: Typer app, and the one place where failures become a line and an exit
code."""

from __future__ import annotations

import codecs
import os
import sys
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from linewright import __version__
from linewright.commands import Grouped, register_all
from linewright.errors import BAD_REQUEST, DONE, INCOMPLETE, LinewrightError, UserError
from linewright.show.output import likeness, note, unread

app = typer.Typer(
    cls=Grouped,
    name="linewright",
    help="Measures what atomic operations cost on this machine, and which form of each is right "
    "there.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"linewright {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


register_all(app)


@cache
def _group() -> typer.core.TyperGroup:
    """The app as Click has it, made of the commands' signatures once a process."""
    return typer.main.get_command(app)


def _give_back_the_locale() -> None:
    """Restore the LC_CTYPE that Python replaced in the C locale (PEP 538), since child processes
    inherit it."""
    if os.environ.get("LC_CTYPE") not in ("C.UTF-8", "C.utf8", "UTF-8"):
        return
    try:
        given = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return
    del os.environ["LC_CTYPE"]
    for assignment in given:
        if assignment.startswith(b"LC_CTYPE="):
            os.environ["LC_CTYPE"] = os.fsdecode(assignment.partition(b"=")[2])


def _in_the_readers_signs() -> None:
    """Print in ASCII where the user's locale is C, which Python takes for UTF-8 (PEP 538, 540), and
    what an encoding lacks by its likeness: a table without '×' and '–' is still a table."""
    codecs.register_error("linewright", likeness)
    named = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    plain = next(filter(None, named), "") in ("C", "POSIX") and "PYTHONIOENCODING" not in os.environ
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="ascii" if plain else None, errors="linewright")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 0 done, 1 a difference was found, 2 wrong request, 3 not
    completed.

    With ``LINEWRIGHT_DEBUG=1`` unexpected failures show their traceback.
    """
    closed = _standard_streams()
    _give_back_the_locale()
    _in_the_readers_signs()
    try:
        if 1 in closed:
            allowed = "write >/dev/null to run without its answer"
            raise UserError("it is closed", "standard output", allowed)
        answer = _group()(args=arguments, prog_name="linewright", standalone_mode=False)
        sys.stdout.flush()
        return _exit_code(answer)
    except LinewrightError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        return _unread()
    except SystemExit:
        # Click or Rich met the closed pipe first and would exit with 1, which means "a difference"
        # here.
        return _unread()
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INCOMPLETE)
    except OSError as error:
        if os.environ.get("LINEWRIGHT_DEBUG") == "1":
            raise
        _unread()  # the rest of the buffer would fail again at exit
        return _fail(
            f"{error.filename or 'standard output, or a temporary file'}: "
            f"{error.strerror or error}",
            INCOMPLETE,
        )
    except Exception as error:
        if hasattr(error, "format_message"):  # the usage errors of Typer and of Click
            return _usage(error)
        if os.environ.get("LINEWRIGHT_DEBUG") == "1":
            raise
        return _fail(
            f"unexpected {type(error).__name__}: {error} (LINEWRIGHT_DEBUG=1 shows where)",
            INCOMPLETE,
        )


def _standard_streams() -> set[int]:
    """Open closed standard streams (``>&-``) on /dev/null, so that no record file gets their
    descriptor; which were closed."""
    closed = set()
    for fd, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(fd)
        except OSError:
            closed.add(os.open(os.devnull, os.O_RDWR))  # the lowest free one, which is this
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(fd, mode))
    return closed


def _unread() -> int:
    unread()
    return DONE


def _usage(error: Exception) -> int:
    """Print a usage error on one line, or the help where there were no arguments at all."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message())
        return BAD_REQUEST
    where = getattr(getattr(error, "ctx", None), "command_path", "linewright")
    return _fail(f"{error.format_message()} (see {where} --help)", BAD_REQUEST)


def _exit_code(answer: object) -> int:
    """The exit code of a command's answer; Typer turns Ctrl-C outside of a run into 130."""
    if answer == 130:
        return _fail("interrupted", INCOMPLETE)
    return answer if isinstance(answer, int) else DONE


def _fail(message: str, code: int) -> int:
    note(message)
    return code
