# SPDX-License-Identifier: MIT
"""What tests of the model share: the calibrated machine, a refusal's text, and damaged copies of a
file."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from linewright.errors import UserError

CALIBRATED = "arm64-server-2025"


def refusal(call: Callable, *arguments) -> str:
    """What a call that must be refused says."""
    with pytest.raises(UserError) as caught:
        call(*arguments)
    return str(caught.value)


def mangled(data: bytes, seed: int, count: int = 300) -> Iterator[bytes]:
    """Copies with one to four damages each: a byte replaced, or up to 40 removed; the same for
    every run."""
    chance = random.Random(seed)
    for _ in range(count):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(broken))
            if chance.random() < 0.4:
                del broken[at : at + chance.randint(1, 40)]
            else:
                broken[at] = chance.randrange(256)
        yield bytes(broken)
