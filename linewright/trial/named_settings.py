# SPDX-License-Identifier: MIT
"""The settings that a trial compares, by name: values of LINEWRIGHT_ATOMICS, environments, heap
blocks on lines of their own, other readers-writer locks, commands, or numbers of threads."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from linewright import numbers, policy, units
from linewright.errors import UserError, check_range, contradiction
from linewright.trial.trial_file import TrialSetting

if TYPE_CHECKING:
    from linewright.trial.trial_place import TrialPlace

MOST_SETTINGS = 16
AS_IS = "as is"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


LOCKS = "locks"
THREADS = "--threads"
PLACE = "{threads}"
"""In an argument or --env: the number of threads."""
MOST_THREADS = 4096
VERSUS = "--versus"
"""Between the commands of a trial; a ``--`` may follow it."""


def alone(pad: list[str] | None, program: str, there: TrialPlace) -> list[TrialSetting]:
    """The baseline and a setting for each function whose heap blocks are padded; without any, the
    program as it is and with the readers-writer locks of liblinewright-rwlock.so."""
    if pad:
        check_range(len(pad), 1, MOST_SETTINGS - 1, "--pad")
        return there.padded(list(dict.fromkeys(pad)), program)
    names = (AS_IS, LOCKS)
    environments = there.interposed(program)
    return [TrialSetting(name=n, environment=e) for n, e in zip(names, environments, strict=True)]


def commands(words: list[str]) -> list[list[str]]:
    """The commands that --versus parts; one where it is not there."""
    found: list[list[str]] = [[]]
    for before, word in zip(["", *words], words, strict=False):
        if word == VERSUS:
            found.append([])
        elif (before, word) != (VERSUS, "--"):
            found[-1].append(word)
    if not all(found):
        raise UserError("no program beside it", VERSUS, "linewright trial -- A --versus -- B")
    return found


def of_commands(given: list[list[str]]) -> list[TrialSetting]:
    """A setting for each command; one that is given again has its turn in its name, which no
    quoted command has: ``A --versus A`` shows what two settings without a difference look like."""
    found = []
    for n, command in enumerate(given):
        turn = given[: n + 1].count(command)
        name = shlex.join(command) + f" ({turn})" * (turn > 1)
        found.append(TrialSetting(name=name, environment={}, command=command))
    return _checked(found)


def of_threads(text: str, command: list[str], env: list[str] | None) -> list[TrialSetting]:
    """A setting for each number of threads, which stands where ``{threads}`` does in the program's
    arguments or in one --env."""
    counts = _numbers_of_threads(text)
    if len(env or []) > 1:
        raise contradiction(THREADS, "several --env", "trial", "one --env, for all numbers")
    if not any(PLACE in word for word in [*command[1:], *(env or [])]):
        what = f"nothing tells the program its number of threads: no {PLACE}"
        allowed = f"PROGRAM --threads {PLACE}, or --env 'OMP_NUM_THREADS={PLACE}'"
        raise UserError(what, THREADS, allowed)
    found = []
    for count in counts:
        name, given = numbers.count(count, "thread"), command[:1]
        given += [word.replace(PLACE, str(count)) for word in command[1:]]
        changed = _assignments(env[0].replace(PLACE, str(count))) if env else {}
        setting = TrialSetting(name=name, environment=changed, command=given, threads=count)
        found.append(setting)
    return found


def _numbers_of_threads(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    counts = [int(word) for word in words if re.fullmatch("[0-9]{1,4}", word, re.ASCII)]
    if (
        len(counts) < len(words)
        or not 2 <= len(counts) <= MOST_SETTINGS
        or not 1 <= counts[0] <= counts[-1] <= MOST_THREADS
        or counts != sorted(set(counts))
    ):
        allowed = f"allowed: 2 to {MOST_SETTINGS} numbers from 1 to {MOST_THREADS}, each larger"
        raise UserError(f"bad value {text!r}", THREADS, f"{allowed} than the last: 1,2,4,8")
    return counts


def check_one_kind(
    pad: list[str] | None, locks: bool, versus: bool, threads: bool, *others: object
) -> None:
    """Refuse --pad, --locks, --versus or --threads beside each other and beside other settings."""
    alone = {"--locks": locks, "--pad": bool(pad), VERSUS: versus, THREADS: threads}
    asked = [option for option, is_asked in alone.items() if is_asked]
    if len(asked) > 1 or (asked and any(others)):
        option = asked[0]
        raise UserError(f"{option} with other settings", "trial", "one kind of setting at a time")


def check_storable(text: str) -> None:
    """A trial file says what was run, and is JSON."""
    try:
        text.encode()
    except UnicodeEncodeError:
        allowed = "a program, arguments and environments in UTF-8; a script can start any other"
        raise UserError(f"not UTF-8: {text!r}", "trial", f"allowed: {allowed}") from None


def named(
    atomics: str | None, env: list[str] | None, program: str, alone: bool, there: TrialPlace
) -> list[TrialSetting]:
    """The settings asked for, by name; the first is the baseline."""
    if atomics is not None and env:
        raise contradiction("--settings", "--env", "trial", "put LINEWRIGHT_ATOMICS=… into --env")
    as_is = TrialSetting(name=AS_IS, environment={})
    if env:
        named = ((text.strip() or AS_IS, _assignments(text)) for text in env)
        found = [TrialSetting(name=name, environment=changed) for name, changed in named]
        if len(found) == 1 and not alone and found[0].environment:
            found.insert(0, as_is)
    elif atomics is not None or (not alone and there.machine == "aarch64"):
        found = _policies(atomics or "default/prefetch/load", program, there)
    elif alone:
        found = [as_is]
    else:
        raise _nothing_to_try(there.machine)
    _checked(found)
    if len(found) < 2 and not alone:
        what = "one setting has nothing to be compared with"
        if env:
            raise UserError(what, "--env", "an assignment, held against the environment as it is")
        raise UserError(what, "--settings", "at least two, separated by /")
    return found


def _nothing_to_try(machine: str) -> UserError:
    allowed = "two commands: A --versus B, environments: --env A=1 --env A=2, or --locks"
    return UserError(f"nothing to try: {policy.one_form(machine)}", "trial", allowed)


def _checked(found: list[TrialSetting]) -> list[TrialSetting]:
    """They have names of their own and are not too many."""
    names = [setting.name for setting in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"setting named twice: {twice[0]}", "trial", "each setting once")
    check_range(len(found), 1, MOST_SETTINGS, "settings")
    return found


def _assignments(text: str) -> dict[str, str]:
    allowed = "allowed: NAME=VALUE, several separated by spaces, quoted as in a shell"
    answer: dict[str, str] = {}
    for word in units.shell_words(text, "--env", allowed):
        name, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(name) or "\0" in value:
            raise UserError(f"not an assignment: {word!r}", "--env", allowed)
        answer[name] = value
    return answer


def _policies(text: str, program: str, there: TrialPlace) -> list[TrialSetting]:
    """Settings of the library; on arm64 all of them load the auditing library, so that nothing else
    differs."""
    values = [value.strip() or "default" for value in text.split("/")]
    for value in values:
        policy.read(value, "--settings")
    if there.machine != "aarch64":
        raise _nothing_to_try(there.machine)
    changed = there.switched(values, program)
    return [TrialSetting(name=v, environment=new) for v, new in zip(values, changed, strict=True)]
