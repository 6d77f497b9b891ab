# SPDX-License-Identifier: MIT
"""Shell completion: the script for each shell, and what bash, zsh and fish themselves offer with
it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from support import waiting

SHELLS = ("bash", "zsh", "fish")


ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PROMPT= PROMPT2=; autoload -Uz compinit; compinit -u -D'
zpty -w shell 'eval "$(_LINEWRIGHT_COMPLETE=source_zsh linewright)"; echo loa""ded'
zpty -r shell seen '*loaded*'
zpty -w -n shell $1$'\t\t'
zpty -r shell seen $2 && print -r -- $seen
"""
"""Types a line and two tabs at a terminal, and waits for what is to appear."""


def own_environment(command) -> dict[str, str]:
    """One in which the command is found by its name."""
    programs = command.directory / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "linewright").write_text(
        "#!/bin/sh\nexec " + " ".join(f"'{w}'" for w in command.arguments()) + ' "$@"\n'
    )
    (programs / "linewright").chmod(0o755)
    environment = command.environment()
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    return environment


def offered(command, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    script = (
        'eval "$(_LINEWRIGHT_COMPLETE=source_bash linewright)"; complete -p linewright '
        ">/dev/null || exit 9; "
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _linewright_completion linewright; printf '
        '"%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script, "sh", "linewright", *words],
        env=own_environment(command),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["mea"], ["measure"]),
        (["fi"], ["find"]),
        (["measure", "--pl"], ["--plan"]),
        (["show", "--wh"], ["--why"]),
        (["measure", "--plan", "qu"], ["quick"]),
        (["measure", "--on", "model:ph"], ["model:phone-2025"]),
        (["list", "rm"], ["rmw"]),
        (["workload", "tick"], ["ticket"]),
        (["sweep", "futex-l"], ["futex-lock-pi"]),
        (["model", "machines", "ph"], ["phone-2025"]),
    ],
)
def test_bash_completes(command, words: list[str], wanted: list[str]):
    assert offered(command, *words) == wanted


def test_fish_completes(command):
    if shutil.which("fish") is None:
        pytest.skip("no fish: apt install fish")
    script = (
        "_LINEWRIGHT_COMPLETE=source_fish linewright | source; "
        "complete -C 'linewright mea'; complete -C 'linewright measure --pl'"
    )
    environment = own_environment(command) | {"HOME": str(command.directory)}
    done = subprocess.run(
        ["fish", "--no-config", "-c", script], env=environment, capture_output=True, text=True
    )
    assert [line.split("\t")[0] for line in done.stdout.splitlines() if line] == [
        "measure",
        "--plan",
    ], done


@pytest.mark.parametrize(
    ("line", "appears"),
    [("linewright mea", "*linewright measure*"), ("linewright measure --pl", "*--plan *")],
)
def test_zsh_completes(command, line: str, appears: str):
    if shutil.which("zsh") is None:
        pytest.skip("no zsh: apt install zsh")
    environment = own_environment(command) | {"HOME": str(command.directory), "TERM": "dumb"}
    done = waiting.run(["zsh", "-f", "-c", ZSH, "zsh", line, appears], env=environment)
    assert done.returncode == 0 and done.stdout, done


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell(command, shell: str):
    environment = command.environment() | {"_LINEWRIGHT_COMPLETE": f"source_{shell}"}
    done = command.apart(env=environment)
    assert done.returncode == 0 and "_LINEWRIGHT_COMPLETE=complete_" in done.stdout, done
