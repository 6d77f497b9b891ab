# SPDX-License-Identifier: MIT
"""Refuses words that docs/glossary.md replaces by others: private ones, and subjects that hide who
acts; exit code 1 if there is one."""

from __future__ import annotations

import re
import subprocess
import sys

INSTEAD = {
    r"dear(er|est)?": "expensive, costs more, slower",
    r"hurried": "expedited",
    r"(is|was|are|be) had( again)?": "say what is repeated, or obtained",
    r"(empty )?twins?": "baseline loop",
    r"nobody": "no thread, no caller: say the subject",
    r"somebody|whoever": "another thread, the caller: say the subject",
    r"(is|are|was|were|be|been) told(?! apart)": "is reported; the caller knows",
    r"times as (dear|much dear)": "times the cost",
}
_REFUSED = re.compile(
    "|".join(rf"(?P<w{n}>\b{word}\b)" for n, word in enumerate(INSTEAD)), re.IGNORECASE
)
_MEANT = re.compile(r'"nobody"|as_nobody|\bnobody = |\{nobody\}|user nobody\b|\bNOBODY\b')
"""The user of that name."""
SKIPPED = (
    ":!docs/glossary.md",
    ":!scripts/check/words.py",
    ":!tests/py/data",
    ":!tests/py/packaging/test_check.py",
    ":!tests/py/support/fake_probe.py",
    ":!LICENSE",
)


def main() -> int:
    pattern = r"dear|hurried| had|twin|nobody|somebody|whoever|told"
    listed = subprocess.run(
        ["git", "grep", "-niIE", pattern, "--", ".", *SKIPPED],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    failed = False
    for line in listed:
        path, number, text = line.split(":", 2)
        for found in _REFUSED.finditer(_MEANT.sub("", text)):
            instead = list(INSTEAD.values())[int(found.lastgroup[1:])]
            print(f"{path}:{number}: '{found[0]}': {instead}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
