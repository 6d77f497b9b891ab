# SPDX-License-Identifier: MIT
"""How a member of a type is declared, in the language that the type is written in: by its DWARF."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from elftools.dwarf.die import DIE

from linewright.elf.symbols import DAMAGE
from linewright.elf.types import (
    Layout,
    counts,
    element_of,
    name_of,
    offset_of,
    referred,
    size_of,
)

Language = Literal["c", "c++", "rust", "go", ""]
_LANGUAGES: dict[Language, tuple[int, ...]] = {
    "c": (0x01, 0x02, 0x0C, 0x1D, 0x2C),
    "c++": (0x04, 0x19, 0x1A, 0x21, 0x2A, 0x2B),
    "rust": (0x1C,),
    "go": (0x16,),
}
"""By the numbers of DW_AT_language: C89, C, C99, C11 and C17; C++ to C++20."""
_QUALIFIERS = {"DW_TAG_const_type": "const", "DW_TAG_volatile_type": "volatile"}
_KEYWORDS = {
    "DW_TAG_structure_type": "struct ",
    "DW_TAG_union_type": "union ",
    "DW_TAG_enumeration_type": "enum ",
}


class _Unknown(Exception):
    """A type that is not spelled here: of a function, of a type without a name."""


NAME = "@"
"""Stands for the name of what is declared."""
_LIBRARIES = ("std", "core", "alloc", "__gnu_cxx", "sync", "runtime", "internal")
_CRATE = re.compile(r"/(rustc|\.cargo/registry|rustlib)/")
"""Where sources of Rust's library and of other people's crates lie."""
_INNER = re.compile(r"\bstd::sync::poison::(mutex|rwlock)::")
"""Paths of Rust's library that a program may not write; without the last two parts it may."""


class Written(NamedTuple):
    """A type and one of its members as they are written."""

    language: Language
    type: str
    """Its name within its scope, without a template's arguments; empty where an element is no
    structure."""
    member: str
    """Its declaration."""
    name: str = ""
    """The member's; empty where an element is no structure."""
    declared: str = ""
    """The same with `NAME` in place of the name; where an element is no structure of the array."""
    place: tuple[int, int] = (0, 0)
    """Where it begins, and how many bytes it has."""
    following: str = ""
    """The declaration of the next member; empty where there is none that can be written."""


def own_member(layout: Layout, offset: int) -> Written | None:
    """The member that holds a byte, of a type that is the program's own; None where it is a
    library's."""
    found = [member(layout, at) for at in range(offset, -1, -1)]
    written = next(filter(None, found), None)
    if written is None or offset >= sum(written.place):
        return None
    after = (member(layout, at) for at in range(sum(written.place), layout.element))
    following = next((w.member for w in after if w), "")
    scope = element_of(layout.die)
    while scope.get_parent() is not None and not scope.get_parent().tag.endswith("_unit"):
        scope = scope.get_parent()
    unit = name_of(scope.cu.get_top_DIE())
    library = _CRATE.search(unit) or re.split(r"[./]", name_of(scope))[0] in _LIBRARIES
    return None if library else written._replace(following=following)


def member(layout: Layout, offset: int) -> Written | None:
    """The member at which an object, or each element of an array, is `offset` bytes in; None where
    none begins there or its type has no name. Of elements that are no structure it is called
    ``value``."""
    try:
        of = element_of(layout.die)
        top = of.cu.get_top_DIE().attributes["DW_AT_language"].value
        language = next((known for known, all_ in _LANGUAGES.items() if top in all_), "")
        if not of.tag.endswith(("structure_type", "class_type", "union_type")):
            if not language or offset:
                return None
            shown, whole = _declared(of, "value", language), _declared(layout.die, NAME, language)
            return Written(language, "", shown, "", whole, (0, layout.element))
        for part in of.iter_children():
            bits = {"DW_AT_bit_size", "DW_AT_external"} & part.attributes.keys()
            if part.tag != "DW_TAG_member" or bits or offset_of(part) != offset:
                continue
            name = name_of(part)
            if name.isidentifier() and name != "_" and not name.startswith("__") and language:
                inner = referred(part, "DW_AT_type")
                own = (_go if language == "go" else name_of)(of).partition("<")[0]
                if not own or "{" in own:  # Go calls a type without a name by its members
                    _unknown()
                shown, declared = (_declared(inner, n, language) for n in (name, NAME))
                return Written(language, own, shown, name, declared, (offset, size_of(inner)))
    except (*DAMAGE, _Unknown):
        pass
    return None


def _declared(of: DIE, name: str, language: Language) -> str:
    """``long hits``, ``hits: AtomicU64`` or ``hits int64``."""
    if language == "rust":
        return f"{name}: {_rust(of)}"
    return f"{name} {_go(of)}" if language == "go" else _c(of, name, language).strip()


def _c(of: DIE | None, name: str, language: Language) -> str:
    """A declarator of C or C++, from the inside out."""
    if of is None:
        return f"void {name}"
    inner = referred(of, "DW_AT_type") if "DW_AT_type" in of.attributes else None
    if of.tag in _QUALIFIERS:
        word = _QUALIFIERS[of.tag]
        if inner is not None and inner.tag == "DW_TAG_pointer_type":
            return _c(inner, f"{word} {name}", language)
        return f"{word} {_c(inner, name, language)}"
    if of.tag == "DW_TAG_atomic_type":
        return f"_Atomic({_c(inner, '', language).strip()}) {name}"
    if of.tag in ("DW_TAG_pointer_type", "DW_TAG_reference_type"):
        sign = "*" if of.tag == "DW_TAG_pointer_type" else "&"
        inside = inner is not None and inner.tag == "DW_TAG_array_type"
        return _c(inner, f"({sign}{name})" if inside else f"{sign}{name}", language)
    if of.tag == "DW_TAG_array_type":
        sizes = "".join(f"[{count}]" for count in counts(of))
        return _c(inner, f"{name}{sizes}", language)
    keyword = _KEYWORDS.get(of.tag, "") if language == "c" else ""
    return f"{keyword}{_plain(of, language)} {name}"


def _rust(of: DIE) -> str:
    if of.tag != "DW_TAG_array_type":
        return _plain(of, "rust")
    shown = _rust(referred(of, "DW_AT_type"))
    for count in reversed(counts(of)):
        shown = f"[{shown}; {count}]"
    return shown


def _go(of: DIE) -> str:
    return re.sub(r"(?:[\w.~-]+/)+", "", name_of(of)).replace("main.", "") or _unknown()


def _plain(of: DIE, language: Language) -> str:
    """A name with those of the scopes around it."""
    if of.tag == "DW_TAG_subroutine_type" or not (name := name_of(of)):
        _unknown()
    if language == "go":
        return _go(of)
    scope, parts = of.get_parent(), [name]
    while scope is not None and not scope.tag.endswith("_unit") and language != "c":
        parts.insert(0, name_of(scope))
        scope = scope.get_parent()
    whole = "::".join(filter(None, parts))
    if language == "rust":
        own = name_of(of.cu.get_top_DIE()).partition("/@/")[2].partition(".")[0]
        whole = re.sub(rf"\b{own}::", "", whole) if own else whole
        whole = re.sub(r"\balloc::", "std::", _INNER.sub("std::sync::", whole))
    return whole


def _unknown() -> str:
    raise _Unknown
