"""Shell completion: the script that `--show-completion` prints, and what bash offers with it."""

from __future__ import annotations

import subprocess

import pytest

SHELLS = ("bash", "zsh", "fish")


def offered(command, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    programs = command.directory / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "linewright").write_text(
        "#!/bin/sh\nexec " + " ".join(f"'{w}'" for w in command.arguments()) + ' "$@"\n'
    )
    (programs / "linewright").chmod(0o755)
    script = (
        'eval "$(_LINEWRIGHT_COMPLETE=source_bash linewright)"; complete -p linewright >/dev/null || exit 9; '
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _linewright_completion linewright; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = command.environment()
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script, "sh", "linewright", *words], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["mea"], ["measure"]),
        (["fl"], ["fleet"]),
        (["measure", "--pl"], ["--plan", "--plain"]),
        (["show", "--wh"], ["--why"]),
    ],
)
def test_bash_completes(command, words: list[str], wanted: list[str]):
    assert offered(command, *words) == wanted


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell(command, shell: str):
    environment = command.environment() | {"_LINEWRIGHT_COMPLETE": f"source_{shell}"}
    done = command.apart(env=environment)
    assert done.returncode == 0 and "_LINEWRIGHT_COMPLETE=complete_" in done.stdout, done
