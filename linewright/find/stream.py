"""Reading a stream of lines: what a cut-off, damaged or foreign one comes to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn

import msgspec

from linewright.errors import RunError, UserError
from linewright.find.sharing_schema import AnyLine, Failure

LONGEST = 1 << 22
"""Bytes of one line; no source writes one that long."""


class StreamError(RunError):
    """A stream that no source of ours wrote, or that something wrote into; what came before it
    holds."""


class SamplingRefusal(RunError):
    """perf_event_open is not allowed here; the text names the setting."""


def fail(line: Failure) -> NoReturn:
    """Raise what a failure of the sampler means here."""
    if line.code == 2:
        raise UserError(
            line.why, "find", "allowed: a program that can be run, or --pid of a running process"
        )
    raise {4: SamplingRefusal}.get(line.code, RunError)(line.why)


_decoder = msgspec.json.Decoder(AnyLine)


def parse(line: bytes, number: int = 0) -> AnyLine:
    """One line, checked. StreamError for one that no source of ours writes."""
    if len(line) > LONGEST:
        raise StreamError(f"line {number} of the sampler is {len(line)} bytes long")
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StreamError(f"line {number} of the sampler: {error}") from None


def read(lines: Iterable[bytes]) -> Iterator[AnyLine]:
    """Every whole line; a last one that a kill cut off is left out."""
    for number, line in enumerate(lines, 1):
        if line.endswith(b"\n"):
            yield parse(line, number)
