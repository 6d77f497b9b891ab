"""Record files as analysis wants them: read in bounded memory, summarised cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from linewright.analysis.near_far import CoreClass, Nearness
from linewright.analysis.summary import Summary, summarise_groups
from linewright.records.store import Store
from linewright.schema import Context, Record


class Loaded(NamedTuple):
    """Record files as analysis wants them."""

    contexts: dict[str, Context]
    summaries: list[Summary]
    classes: list[CoreClass]
    """Near/far classes, line by line, of the records that `near` of `load` lets through; none without it."""


def load(
    paths: Sequence[str],
    warn: Callable[[str], None],
    only: Sequence[str] = (),
    near: Callable[[Record], bool] | None = None,
) -> Loaded:
    """Summaries of record files in bounded memory; files without a record give none.

    `near` asks for the near/far classes of the records that it chooses.
    """
    with Store(paths, warn, only) as store:
        return load_from(store, near)


def load_from(store: Store, near: Callable[[Record], bool] | None = None) -> Loaded:
    """The same from a store that was not read yet."""
    every, chosen = Nearness(store.contexts, told=0), Nearness(store.contexts)
    see = [every.feed]
    if near is not None:
        see.append(lambda record: chosen.feed(record) if near(record) else None)
    store.read(see)
    summaries = summarise_groups(store.contexts, store.groups(), every.classes())
    return Loaded(store.contexts, summaries, chosen.classes())
