# SPDX-License-Identifier: MIT
"""Record files as analysis wants them: read in bounded memory, summarised cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from linewright.analysis.summarise import summarise_groups
from linewright.analysis.summary import Summary
from linewright.records.store import Store
from linewright.schema import Context


class Measurements(NamedTuple):
    """Record files as analysis wants them."""

    contexts: dict[str, Context]
    summaries: list[Summary]


def load(
    paths: Sequence[str], warn: Callable[[str], None], only: Sequence[str] = ()
) -> Measurements:
    """Summaries of record files in bounded memory; files without a record give none."""
    with Store(paths, warn, only) as store:
        store.read()
        return summarised(store)


def summarised(store: Store) -> Measurements:
    """The same from a store that was read."""
    return Measurements(store.contexts, summarise_groups(store.contexts, store.groups()))
