"""The report's large figures name another form only where the machine's truth is that it costs less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from linewright.report.about import Tile, tiles
from linewright.report.material import gather
from support import machines
from support.analysis_samples import write


def tiles_of(name: str, folder: Path) -> list[Tile]:
    path = folder / f"{name}.jsonl"
    write(path, machines.records(name), [])
    (series,) = gather([str(path)], lambda text: None).series
    return tiles(series)


@pytest.mark.parametrize("name", ["x86-vm", "x86-metal", "x86-256", "metastable", "undecided"])
def test_no_tile_crowns_one_of_several_equal_forms(name: str, tmp_path: Path) -> None:
    """Every form of an add, fetch-and-add and read-first loop costs the same on these machines."""
    made = [
        tile for tile in tiles_of(name, tmp_path) if tile.name.startswith(("add,", "fetch_add,", "CAS, reads first,"))
    ]
    assert made
    for tile in made:
        assert not re.search(r"-\d", tile.note), tile
        assert any(
            words in tile.note for words in ("no other form saves more", "undecided", "every other form costs more")
        )


def test_a_form_that_costs_less_is_named(tmp_path: Path) -> None:
    """Contended, STADD costs 34 ns on this machine, with a prefetch or without, and the default LDADD 88."""
    (tile,) = (tile for tile in tiles_of("arm64-far", tmp_path) if tile.name == "add, second CPU on the line")
    assert tile.note.startswith("ldadd; stadd -6"), tile
