# SPDX-License-Identifier: MIT
"""Runs a mutant's tests and succeeds if a test failed: not if all passed, and not if the program
crashed or hung.

usage: caught.py PROGRAM
"""

import re
import subprocess
import sys


def main(program: str) -> int:
    try:
        run = subprocess.run(
            [program, "--gtest_fail_fast", "--gtest_brief=1"],
            capture_output=True,
            text=True,
            timeout=400,
        )
    except subprocess.TimeoutExpired:
        print(f"{program}: hung; a mutant must be caught by a test")
        return 1
    failed = re.findall(r"\[  FAILED  \] (\S+?),? ", run.stdout)
    print(f"exit {run.returncode}; first failure: {failed[0] if failed else 'none'}")
    return 0 if run.returncode == 1 and failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
