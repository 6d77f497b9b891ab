"""What an object is called on the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from linewright.find.names import AddressName, Object

MOST_NAMES = 3
"""Further objects of a line that are named."""
MOST_FIELDS = 4
"""Fields that objects of one type are named by."""


def object_text(what: Object, whole: bool = False) -> str:
    """An address's object, and where in it that lies unless the `whole` is meant."""
    inside = "" if whole or not what.offset else f" + {what.offset}"
    far = "" if whole else f" + {what.offset:#x}"
    match what.kind:
        case "static" if what.symbol:
            return f"{what.symbol}{inside}"
        case "static":
            return f"static data of {what.file}" + ("" if whole else f" at {what.offset:#x}")
        case "thread_local":
            copy = f"{what.symbol}{inside}" if what.symbol else f"storage of {what.file}"
            return f"thread-local {copy} of thread {what.thread}"
        case "heap" if what.allocator:
            at = "" if whole else f", + {what.offset}"
            return f"heap block of {what.size} bytes allocated in {_allocation(what)}{at}"
        case "heap":
            return "heap block, allocating call unknown"
        case "stack":
            return f"stack or thread-local storage of thread {what.thread}"
        case "shared_mapping":
            return f"shared mapping ({what.file or 'anonymous'}){far}"
        case "mapping":
            return f"anonymous memory, {_size(what.size)} mapped" + (far and f",{far}")
        case _:
            return f"unknown memory at {what.offset:#x}"


def line_text(objects: Sequence[Object]) -> str:
    """What lies at several addresses of one line: the first in full, then what else is there."""
    apart: dict[Object, Object] = {}
    for what in objects:
        apart.setdefault(what.apart, what)
    first, *named = map(object_text, apart.values())
    more = f" and {len(named) - MOST_NAMES} more" if len(named) > MOST_NAMES else ""
    return ", ".join([first, *named[:MOST_NAMES]]) + more


def table_text(what: Object | tuple[str, list[str]], lines: int) -> str:
    """An object on several lines, or objects of one type with the fields that are used."""
    if isinstance(what, Object):
        return f"{object_text(what, whole=True)}, on {lines} lines"
    name, fields = what
    used = f" ({', '.join(fields[:MOST_FIELDS])})" if fields else ""
    return f"objects of type {name}{used}, on {lines} lines"


def place_text(named: AddressName) -> str:
    """A function, with file name and line where they are known."""
    return f"{named.function} ({PurePath(named.source).name})" if named.source else named.function


def _allocation(what: Object) -> str:
    called = f", called from {place_text(what.caller)}" if what.caller else ""
    return place_text(what.allocator) + called


def _size(length: int) -> str:
    return f"{length / 2**20:.0f} MiB" if length >= 2**20 else f"{length // 1024} KiB"
