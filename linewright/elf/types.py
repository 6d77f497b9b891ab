# SPDX-License-Identifier: MIT
"""Types of variables and heap blocks by a file's DWARF: which fields lie at which bytes.

Only the unit that an address of code lies in is read: code that accesses a field has its type."""

from __future__ import annotations

import bisect
import contextlib
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

from elftools.common.exceptions import DWARFError
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE, AttributeValue
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DWARFInfo
from elftools.dwarf.locationlists import BaseAddressEntry as LocationBase
from elftools.dwarf.locationlists import LocationEntry, LocationParser
from elftools.dwarf.ranges import BaseAddressEntry
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from linewright.elf.symbols import DAMAGE, debug_files

MOST_BYTES = 512 << 20
"""Of debug information that is read; what has more has no types here."""
_SAME = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_atomic_type")
_PARTS = ("DW_TAG_member", "DW_TAG_inheritance")
_BLOCKS = ("DW_TAG_lexical_block", "DW_TAG_inlined_subroutine")
_PLACES = {"DW_AT_low_pc", "DW_AT_ranges"}
_SECTIONS = {1: ".debug_info.dwo", 3: ".debug_abbrev.dwo", 4: ".debug_line.dwo",
             5: ".debug_loclists.dwo", 6: ".debug_str_offsets.dwo",
             8: ".debug_rnglists.dwo"}  # fmt: skip
"""By their numbers in a package's index."""
MOST_DEEP = 8
"""Members of members in which pointers are looked for: std::unique_ptr has its own six deep."""
_OP_ADDR, _OP_ADDRX, _OP_REG, _OP_BREG, _OP_STACK_VALUE = 0x03, 0xA1, 0x50, 0x70, 0x9F
_STRUCTS = ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")
_WHOLE = re.compile(r"^(_[A-Z_]|Atomic|UnsafeCell|atomic<|mutex$|shared_mutex$|noCopy$)")
"""Members and types that are shown as one: insides of libraries."""
_LIBRARIES = ("std", "__gnu_cxx", "core", "alloc")
_ZSTD = 2
"""ELFCOMPRESS_ZSTD, a section's kind of compression."""


class Field(NamedTuple):
    """A field that is no structure itself, or is shown as one."""

    offset: int
    """In the object, bytes."""
    size: int
    path: str
    """As it is written behind the object's name: ``[2].s.hits``."""
    type: str


class Layout(NamedTuple):
    """An object's type."""

    name: str
    size: int
    element: int
    """Bytes of an element of an array; of anything else its own."""
    die: DIE

    def fields(self, low: int, high: int) -> list[Field]:
        """The fields that bytes from `low` to below `high` are of, in order."""
        try:
            return sorted(_leaves(self.die, 0, "", low, high))
        except DAMAGE:
            return []


class Accessed(NamedTuple):
    """What code accesses, by its function's debug information."""

    layout: Layout
    offset: int
    """Of the access in it."""


def variable(path: str, code: int, name: str, at: int = 0) -> Layout | None:
    """A variable's layout, by the file's own address of code that accesses it, by its name with
    namespaces, and by its own address where it has one; None where DWARF does not say."""
    names, declared = (name, name.split("::")[-1].split(".")[0]), {}
    with contextlib.suppress(*DAMAGE):
        unit = _unit(path, code)
        for die in _scope(unit, code) if unit else ():
            if die.tag != "DW_TAG_variable" or name_of(die) not in names:
                continue
            layout, own = _layout(_type(die)), _address(die)
            if layout.size and at and own == at:
                return layout
            if layout.size and (own is None or not at):
                declared[layout.name, layout.size] = layout
    return next(iter(declared.values())) if len(declared) == 1 else None


def _address(die: DIE) -> int | None:
    """A variable's own; None where it has none, as in a declaration, or of thread-local data."""
    location = die.attributes.get("DW_AT_location")
    first, *rest = location.value if location and isinstance(location.value, list) else [0]
    if first == _OP_ADDR:
        return int.from_bytes(bytes(rest), "little")
    return die.dwarfinfo.get_addr(die.cu, _number(rest)) if first == _OP_ADDRX else None


def _number(leb: list[int], signed: bool = False) -> int:
    value = sum((byte & 127) << 7 * i for i, byte in enumerate(leb))
    return value - (1 << 7 * len(leb)) if signed and leb[-1] & 64 else value


def allocated(path: str, code: int, size: int) -> Layout | None:
    """The layout of a block of heap: the one structure of this size that pointers of the allocating
    function lead to, those within its objects too (smart pointers); without one, that of a whole
    part of it that its own pointers lead to."""
    found: list[dict[str, Layout]] = [{}, {}]
    with contextlib.suppress(*DAMAGE):
        unit = _unit(path, code)
        function = _function(unit, code) if unit else None
        for die in [function, *_inside(function)] if function else []:
            if "DW_AT_type" not in die.attributes:
                continue
            for depth, layout in _pointees(_type(die), 0):
                if layout.size == size:
                    found[0][layout.name] = layout
                elif layout.size and depth == 0 and size % layout.size == 0:
                    found[1][layout.name] = layout
    best = found[0] or found[1]
    return next(iter(best.values())) if len(best) == 1 else None


def _pointees(die: DIE, depth: int) -> Iterator[tuple[int, Layout]]:
    """The structures that a type's pointers lead to, and how deep within it those lie."""
    if die.tag.endswith(("pointer_type", "reference_type")):
        to = _type(die) if "DW_AT_type" in die.attributes else die
        if to.tag in _STRUCTS:
            yield depth, _layout(to, _typedef(die))
    elif die.tag in _STRUCTS and depth < MOST_DEEP:
        for member in die.iter_children():
            if member.tag in _PARTS and "DW_AT_type" in member.attributes:
                yield from _pointees(_type(member), depth + 1)


def pointed(path: str, code: int, register: int, displacement: int) -> Accessed | None:
    """What code accesses at a register plus a displacement, where the debug information has a
    pointer in that register (by DWARF's number) there: the widest structure that such pointers lead
    to."""
    found: list[tuple[int, Layout, int]] = []
    with contextlib.suppress(*DAMAGE):
        unit = _unit(path, code)
        function = _function(unit, code) if unit else None
        for die in _live(function, code) if function else ():
            added = _held(die, code, register)
            if added is None:
                continue
            for depth, layout in _pointees(_type(die), 0):
                offset = displacement - added
                if depth == 0 and 0 <= offset < layout.size:
                    found.append((layout.size, layout, offset))
    return Accessed(*max(found, key=lambda f: f[0])[1:]) if found else None


def _live(scope: DIE, code: int) -> Iterator[DIE]:
    """Variables and parameters of a function, and of what was inlined into it at an address."""
    for die in scope.iter_children():
        if die.tag in ("DW_TAG_variable", "DW_TAG_formal_parameter"):
            yield die
        elif die.tag in _BLOCKS and (_covers(die, code) or not _PLACES & die.attributes.keys()):
            yield from _live(die, code)


def _held(die: DIE, code: int, register: int) -> int | None:
    """What must be added to the register to have the variable's value at an address; None where it
    is not in that register."""
    expression = _location(die, code)
    if expression == [_OP_REG + register]:
        return 0
    if expression[:1] == [_OP_BREG + register] and expression[-1] == _OP_STACK_VALUE:
        return _number(expression[1:-1], signed=True)
    return None


def _location(die: DIE, code: int) -> list[int]:
    """Where a variable is at an address of code, as an expression; empty where that is not said."""
    given = die.attributes.get("DW_AT_location")
    if given is None or isinstance(given.value, list):
        return given.value if given else []
    base = die.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
    begin = base.value if base else 0
    lists = LocationParser(die.dwarfinfo.location_lists())
    for entry in lists.parse_from_attribute(given, die.cu["version"], die):
        if isinstance(entry, LocationBase):
            begin = entry.base_address
        elif isinstance(entry, LocationEntry):
            add = 0 if entry.is_absolute else begin
            if add + entry.begin_offset <= code < add + entry.end_offset:
                return list(entry.loc_expr)
    return []


def _unit(path: str, code: int) -> DIE | None:
    dwarf = _debug(path).dwarf
    table = dwarf.get_aranges() if dwarf else None
    at = table.cu_offset_at_addr(code) if table else None
    if at is None:
        tops = (unit.get_top_DIE() for unit in dwarf.iter_CUs()) if dwarf else ()
        at = next((top.cu.cu_offset for top in tops if _covers(top, code)), None)
    return _whole(path, at) if at is not None else None


class _SplitFile(ELFFile):
    """A .dwo file, whose sections have the names of other files' with that ending; of a .dwp
    package the parts that one unit's own .dwo file had."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.parts: dict[str, list[slice]] = {}
        """By section; the whole section where it is not there."""

    def get_section_by_name(self, name: str) -> Section | None:
        return super().get_section_by_name(name + ".dwo")

    def _read_dwarf_section(self, section: Section, relocate: bool) -> DebugSectionDescriptor:
        found = super()._read_dwarf_section(section, relocate)
        # Units of types have sections of their own with the same name.
        every = [s.data() for s in self.iter_sections() if s.name == section.name]
        if section.name in self.parts:
            every = [every[0][part] for part in self.parts[section.name]]
        data = b"".join(every)
        return found._replace(stream=BytesIO(data), size=len(data))

    def select(self, dwo_id: int) -> bool:
        """Of a package, take the parts of this unit, and of the units of types beside it; False
        where it has none."""
        units = dict(self._index(".debug_cu_index"))
        if dwo_id not in units:
            return False
        mine = units[dwo_id]
        name = ".debug_info.dwo"
        beside = [row[name] for _, row in self._index(".debug_tu_index")
                  if row[".debug_abbrev.dwo"] == mine[".debug_abbrev.dwo"]]  # fmt: skip
        self.parts = {section: [part] for section, part in mine.items()}
        self.parts[name] = [mine[name], *beside]
        return True

    def _index(self, name: str) -> Iterator[tuple[int, dict[str, slice]]]:
        """Signature and parts of each unit of an index (DWARF 5, 7.3.5.3)."""
        section = ELFFile.get_section_by_name(self, name)
        data = section.data() if section else b""
        if len(data) < 16 or data[0] != 5:
            return
        columns, units, slots = struct.unpack_from("<3I", data, 4)
        signatures = struct.unpack_from(f"<{slots}Q", data, 16)
        rows = struct.unpack_from(f"<{slots}I", data, 16 + 8 * slots)
        table = struct.unpack_from(f"<{(2 * units + 1) * columns}I", data, 16 + 12 * slots)
        names = [_SECTIONS.get(number, "") for number in table[:columns]]
        for signature, row in zip(signatures, rows, strict=True):
            if row:
                begins = table[row * columns :][:columns]
                sizes = table[(units + row) * columns :][:columns]
                parts = [slice(at, at + size) for at, size in zip(begins, sizes, strict=True)]
                yield signature, dict(zip(names, parts, strict=True))


@lru_cache(maxsize=64)
def _whole(path: str, offset: int) -> DIE:
    """A unit's top entry; of split DWARF (-gsplit-dwarf, version 5) that in the .dwo file, looked
    for where the compiler put it and beside the program, or in the program's .dwp package."""
    skeleton = _debug(path).dwarf.get_CU_at(offset).get_top_DIE()
    given = skeleton.attributes
    if "DW_AT_dwo_name" not in given:
        return skeleton
    name, folder = (os.fsdecode(given[at].value) for at in ("DW_AT_dwo_name", "DW_AT_comp_dir"))
    beside, dwo_id = Path(path).resolve(), skeleton.cu["dwo_id"]
    package = beside.with_name(f"{beside.name}.dwp")
    for place in (Path(folder, name), beside.parent / Path(name).name, package):
        if not place.is_file():
            continue
        with place.open("rb") as file:
            split = _SplitFile(file)
            if place == package and not split.select(dwo_id):
                continue
            dwarf = split.get_dwarf_info(False, follow_links=False)
        dwarf.debug_addr_sec = skeleton.dwarfinfo.debug_addr_sec
        units = list(dwarf.iter_CUs())
        for unit in units:
            if unit.header.get("dwo_id") == dwo_id:
                for other in units:
                    _based(other, skeleton)
                return unit.get_top_DIE()
    return skeleton


@lru_cache(maxsize=16)
def _type_units(dwarf: DWARFInfo) -> dict[int, DIE]:
    """The types with units of their own (-fdebug-types-section), by signature."""
    five = [u for u in dwarf.iter_CUs() if "type_signature" in u.header]
    return {u["type_signature"]: u.get_DIE_from_refaddr(u.cu_offset + u["type_offset"])
            for u in five}  # fmt: skip


def referred(die: DIE, name: str) -> DIE:
    """The entry that an attribute leads to, in whatever unit."""
    given = die.attributes[name]
    if given.form != "DW_FORM_ref_sig8":
        found = die.get_DIE_from_attribute(name)
    elif die.dwarfinfo.has_debug_types():  # version 4
        found = die.dwarfinfo.get_DIE_by_sig8(given.raw_value)
    else:
        found = _type_units(die.dwarfinfo)[given.raw_value]
    return referred(found, "DW_AT_signature") if "DW_AT_signature" in found.attributes else found


def _based(unit: CompileUnit, skeleton: DIE) -> DIE:
    """The top entry of a split unit, with the bases that the standard leaves out there: tables
    begin behind their headers, and addresses are the skeleton's."""
    with contextlib.suppress(DWARFError):  # its own strings want a base; it is kept all the same
        unit.get_top_DIE()
    top, given = unit.get_top_DIE(), skeleton.attributes
    bases = {"DW_AT_str_offsets_base": 8, "DW_AT_rnglists_base": 12, "DW_AT_loclists_base": 12}
    for name, value in bases.items():
        top.attributes[name] = AttributeValue(name, "DW_FORM_sec_offset", value, value, 0, 0)
    for name in ("DW_AT_addr_base", "DW_AT_low_pc"):
        if name in given:
            top.attributes[name] = given[name]
    return top


class _Debug(NamedTuple):
    """The debug information of a file."""

    dwarf: DWARFInfo | None
    undecoded: str = ""
    """The file whose debug information no tool here could decompress."""


@lru_cache(maxsize=16)
def _debug(path: str) -> _Debug:
    """What a file, or the file of its debug information, says of types."""
    for candidate in debug_files(path):
        with open(candidate, "rb") as file:
            elf = ELFFile(file)
            section = elf.get_section_by_name(".debug_info")
            if section is None or os.path.getsize(candidate) >= MOST_BYTES:
                continue
            if section.compressed and section._compression_type == _ZSTD:
                plain = _decompressed(candidate)
                if plain is None:  # and is so at every later question: no exception is cached
                    return _Debug(None, str(candidate))
                elf = ELFFile(BytesIO(plain))
            return _Debug(elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False))
    return _Debug(None)


def undecoded(path: str) -> str:
    """The file of a file's debug information, if no tool here can decompress that; else empty."""
    with contextlib.suppress(*DAMAGE):
        return _debug(path).undecoded
    return ""


def _decompressed(path: Path) -> bytes | None:
    """The file with plain sections, by binutils or LLVM, since Python 3.11 has no zstd; None where
    neither can."""
    with tempfile.NamedTemporaryFile() as plain:
        for tool in filter(shutil.which, ("objcopy", "llvm-objcopy")):
            command = [tool, "--decompress-debug-sections", str(path), plain.name]
            if subprocess.run(command, capture_output=True).returncode == 0:
                return Path(plain.name).read_bytes()
    return None


def _covers(die: DIE, code: int) -> bool:
    """Whether an address lies in the code of a unit or function."""
    return any(low <= code < high for low, high in _ranges(die))


def _ranges(die: DIE) -> Iterator[tuple[int, int]]:
    """Where the code of a unit or function begins and ends."""
    given, base = die.attributes, 0
    if "DW_AT_low_pc" in given:
        base = given["DW_AT_low_pc"].value
        high = given.get("DW_AT_high_pc")
        if high is not None:
            yield base, high.value + (base if not high.form.endswith("addr") else 0)
            return
    if "DW_AT_ranges" not in given:
        return
    lists = die.dwarfinfo.range_lists()
    for entry in lists.get_range_list_at_offset(given["DW_AT_ranges"].value, cu=die.cu):
        if isinstance(entry, BaseAddressEntry):
            base = entry.base_address
        else:
            add = 0 if getattr(entry, "is_absolute", False) else base
            yield add + entry.begin_offset, add + entry.end_offset


def _scope(scope: DIE, code: int) -> Iterator[DIE]:
    """Where a variable may stand: in the unit, its namespaces, or the function of the code."""
    for die in scope.iter_children():
        yield die
        if die.tag == "DW_TAG_namespace" and name_of(die) not in _LIBRARIES:
            yield from _scope(die, code)
        elif die.tag == "DW_TAG_subprogram" and _covers(die, code):
            yield from _inside(die)


def _function(unit: DIE, code: int) -> DIE | None:
    """The function of a unit that an address lies in."""
    known = _functions(unit)
    at = bisect.bisect_right(known, code, key=lambda function: function[0]) - 1
    return known[at][2] if at >= 0 and code < known[at][1] else None


@lru_cache(maxsize=64)
def _functions(unit: DIE) -> list[tuple[int, int, DIE]]:
    """The code of a unit's functions, in order: beginning, end, and whose it is."""
    found, scopes = [], [unit]
    for scope in scopes:
        for die in scope.iter_children():
            if die.tag == "DW_TAG_subprogram":
                found += [(low, high, die) for low, high in _ranges(die)]
            elif die.tag == "DW_TAG_namespace":
                scopes.append(die)
    return sorted(found, key=lambda function: function[:2])


def _inside(die: DIE) -> Iterator[DIE]:
    for child in die.iter_children():
        yield child
        yield from _inside(child)


def name_of(die: DIE) -> str:
    """An entry's own, or that of the declaration that it completes."""
    while "DW_AT_name" not in die.attributes:
        links = ("DW_AT_specification", "DW_AT_abstract_origin")
        link = next((name for name in links if name in die.attributes), None)
        if link is None:
            return ""
        die = referred(die, link)
    return die.attributes["DW_AT_name"].value.decode("utf-8", "replace")


def _type(die: DIE) -> DIE:
    """The type that something has, without names and qualifiers around it."""
    while "DW_AT_type" not in die.attributes:
        origin = "DW_AT_abstract_origin" in die.attributes
        die = referred(die, "DW_AT_abstract_origin" if origin else "DW_AT_specification")
    found = referred(die, "DW_AT_type")
    return _type(found) if found.tag in _SAME else found


def _layout(die: DIE, called: str = "") -> Layout:
    element = element_of(die)
    return Layout(name_of(element) or called or "struct", size_of(die), size_of(element), die)


def _typedef(pointer: DIE) -> str:
    """The name that a pointer's type without one of its own is called by."""
    found = pointer
    while "DW_AT_type" in found.attributes:
        found = referred(found, "DW_AT_type")
        if found.tag == "DW_TAG_typedef":
            return name_of(found)
    return ""


def element_of(die: DIE) -> DIE:
    """What an array is of; any other type itself."""
    return _type(die) if die.tag == "DW_TAG_array_type" else die


def size_of(die: DIE) -> int:
    """Bytes of a type."""
    if "DW_AT_byte_size" in die.attributes:
        return die.attributes["DW_AT_byte_size"].value
    if die.tag == "DW_TAG_array_type":
        size = size_of(_type(die))
        for count in counts(die):
            size *= count
        return size
    return size_of(_type(die)) if die.tag in _SAME else die.cu["address_size"]


def counts(die: DIE) -> list[int]:
    """Elements by dimension; 0 where there is no end."""
    found = []
    for part in die.iter_children():
        given = {k: v.value for k, v in part.attributes.items()}
        if part.tag == "DW_TAG_subrange_type":
            found.append(given.get("DW_AT_count", given.get("DW_AT_upper_bound", -1) + 1))
    return [count if isinstance(count, int) else 0 for count in found]


def _leaves(die: DIE, at: int, path: str, low: int, high: int) -> Iterator[Field]:
    members = _members(die)
    for member in (m for m in members if name_of(m) != "_"):  # padding, and a blank field of Go
        begin, inner = at + offset_of(member), _type(member)
        if begin < high and begin + size_of(inner) > low:
            name = name_of(member) if member.tag == "DW_TAG_member" else ""
            name = "" if _WHOLE.match(name) else name
            yield from _leaves(inner, begin, path + (f".{name}" if name else ""), low, high)
    sizes = counts(die) if die.tag == "DW_TAG_array_type" else []
    if len(sizes) == 1:
        inner = _type(die)
        size = max(1, size_of(inner))
        for i in range(max(0, (low - at) // size), min(sizes[0] or high, -((at - high) // size))):
            yield from _leaves(inner, at + i * size, f"{path}[{i}]", low, high)
    elif not members and size_of(die):
        yield Field(at, size_of(die), path, name_of(die))


def _members(die: DIE) -> list[DIE]:
    """Of a structure that is shown by its members; of a union the first one with members of its
    own, since all lie at one place."""
    if die.tag not in _STRUCTS or _WHOLE.match(name_of(die)):
        return []
    found = [
        m
        for m in die.iter_children()
        if m.tag in _PARTS and not {"DW_AT_external", "DW_AT_artificial"} & m.attributes.keys()
    ]
    if len(found) == 1 and _type(found[0]).tag == "DW_TAG_array_type":
        return found  # std::array: its elements
    if any(_WHOLE.match(name_of(m)) for m in found if m.tag == "DW_TAG_member"):
        return []
    if die.tag == "DW_TAG_union_type":
        return sorted(found, key=lambda m: not _members(_type(m)))[:1]
    return found


def offset_of(member: DIE) -> int:
    """Where a member begins in its type."""
    given = member.attributes
    if "DW_AT_data_member_location" in given:
        return given["DW_AT_data_member_location"].value
    return given["DW_AT_data_bit_offset"].value // 8 if "DW_AT_data_bit_offset" in given else 0
