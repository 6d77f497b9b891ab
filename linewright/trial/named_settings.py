"""The settings that a trial compares, by name: values of LINEWRIGHT_ATOMICS, environments, heap
blocks on lines of their own, or other readers-writer locks."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from linewright import policy
from linewright.errors import UserError, check_range, contradiction
from linewright.trial.trial_file import TrialSetting

if TYPE_CHECKING:
    from linewright.trial.trial_place import TrialPlace

MOST_SETTINGS = 16
AS_IS = "as is"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


LOCKS = "locks"


def alone(pad: list[str] | None, program: str, there: TrialPlace) -> list[TrialSetting]:
    """The baseline and a setting for each function whose heap blocks are padded; without any, the
    program as it is and with the readers-writer locks of liblinewright-rwlock.so."""
    if pad:
        check_range(len(pad), 1, MOST_SETTINGS - 1, "--pad")
        return there.padded(list(dict.fromkeys(pad)), program)
    names = (AS_IS, LOCKS)
    environments = there.interposed(program)
    return [TrialSetting(name=n, environment=e) for n, e in zip(names, environments, strict=True)]


def check_one_kind(pad: list[str] | None, locks: bool, *others: object) -> None:
    """Refuse --pad or --locks beside each other and beside other settings."""
    if (locks and pad) or ((locks or pad) and any(other for other in others)):
        option = "--locks" if locks else "--pad"
        raise UserError(f"{option} with other settings", "trial", "one kind of setting at a time")


def check_storable(text: str) -> None:
    """A trial file says what was run, and is JSON."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(
            f"not UTF-8: {text!r}",
            "trial",
            "allowed: a program, arguments and environments in UTF-8; a script can start any other",
        ) from None


def named(
    atomics: str | None, env: list[str] | None, program: str, alone: bool, there: TrialPlace
) -> list[TrialSetting]:
    """The settings asked for, by name; the first is the baseline."""
    if atomics is not None and env:
        raise contradiction("--settings", "--env", "trial", "put LINEWRIGHT_ATOMICS=… into --env")
    as_is = TrialSetting(name=AS_IS, environment={})
    if env:
        found = [
            TrialSetting(name=text.strip() or AS_IS, environment=_assignments(text)) for text in env
        ]
        if len(found) == 1 and not alone:
            found.insert(0, as_is)
    elif atomics is not None or (not alone and there.machine == "aarch64"):
        found = _policies(atomics or "default/prefetch/load", program, there)
    elif alone:
        found = [as_is]
    else:
        raise UserError(
            f"nothing to try: {policy.one_form(there.machine)}",
            "trial",
            "name environments: --env A=1 --env A=2",
        )
    names = [setting.name for setting in found]
    if len(set(names)) < len(names):
        raise UserError(
            f"setting named twice: {next(n for n in names if names.count(n) > 1)}",
            "trial",
            "each setting once",
        )
    if len(found) < 2 and not alone:
        raise UserError(
            "one setting has nothing to be compared with",
            "--settings",
            "at least two, separated by /",
        )
    check_range(len(found), 1, MOST_SETTINGS, "settings")
    return found


def _assignments(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(
            f"{text!r}: {error}",
            "--env",
            "allowed: NAME=VALUE, several separated by spaces, quoted as in a shell",
        ) from None
    answer: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(name) or "\0" in value:
            raise UserError(
                f"not an assignment: {word!r}",
                "--env",
                "allowed: NAME=VALUE, several separated by spaces",
            )
        answer[name] = value
    return answer


def _policies(text: str, program: str, there: TrialPlace) -> list[TrialSetting]:
    """Settings of the library; on arm64 all of them load the auditing library, so that nothing else
    differs."""
    values = [policy.check(value.strip(), "--settings") or "default" for value in text.split("/")]
    if there.machine != "aarch64":
        return [
            TrialSetting(name=value, environment={"LINEWRIGHT_ATOMICS": value}) for value in values
        ]
    changed = there.switched(values, program)
    return [TrialSetting(name=v, environment=new) for v, new in zip(values, changed, strict=True)]
