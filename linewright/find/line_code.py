# SPDX-License-Identifier: MIT
"""The code that a remedy is, for a line's own type and in its language: only where what was seen
supports that remedy, and from declarations that the debug information has."""

from __future__ import annotations

import re
from typing import Any

from linewright.elf.declarations import NAME
from linewright.find.line_verdict import own_language
from linewright.find.results import APART, ContendedMember, Hot, LayoutAdvice

_LANGUAGES = {"c": "C", "c++": "C++", "rust": "Rust", "go": "Go"}
_SEPARATED = {
    "c": (
        "struct {type} {{ alignas({n}) {first};{rest} }};",
        "struct {type} {{ … alignas({n}) {members}; … }};",
    ),
    "c++": (
        "struct alignas({n}) {type} {{ {first};{rest} }};",
        "struct {type} {{ … alignas({n}) {members}; … }};",
    ),
    "rust": (
        "#[repr(align({n}))] struct {type} {{ {first},{rest} }}",
        "#[repr(align({n}))] struct Apart<T>(T); struct {type} {{ … {members}, … }}",
    ),
    "go": (
        "type {type} struct {{ {first};{rest} _ [{pad}]byte }}",
        "type {type} struct {{ … _ [{n}]byte; {members}; … }}",
    ),
}
"""What to write where an element gets lines of its own, and where fields of it do."""
_BETWEEN = {"rust": ", … ", "go": "; … _ [{n}]byte; "}
_INSIDE = {
    "c": ("struct {type} {{ … {inner}; … }};", "static {inner};"),
    "rust": ("#[repr(align({n}))] struct Apart<T>(T); struct {type} {{ … {inner}, … }}", ""),
    "go": ("type {type} struct {{ … {inner}; … }}", "var {inner}"),
}
"""How members are written among others, and where the object is no structure; here and below, C++
has what C has where it has nothing of its own."""
_MEMBERS = {
    "counting": {
        "c": "struct {{ alignas({n}) {value}; }} {name}[THREADS]",
        "rust": "{name}: [Apart<{of}>; THREADS]",
        "go": "{name} [threads]struct {{ {value}; _ [{n}]byte }}",
    },
    "written": {
        "c": "{own}; alignas({n}) {member}",
        "rust": "own_{member}, {name}: Apart<{of}>",
        "go": "{own}; _ [{n}]byte; {member}; _ [{n}]byte",
    },
    "lock": {
        "c": "{member}; alignas({n}) {following}",
        "rust": "{name}: Apart<{of}>, {following}",
        "go": "{member}; _ [{n}]byte; {following}",
    },
    "readers": {
        "c": "struct lw_rwlock {name}",
        "rust": "{name}: [Apart<std::sync::RwLock<()>>; THREADS]",
        "go": "{name} [threads]struct {{ sync.RWMutex; _ [{n}]byte }}",
    },
    "waits": {
        "c": "{member}; pthread_mutex_t {name}_lock; pthread_cond_t {name}_changed",
        "c++": "{member}; std::mutex {name}_lock; std::condition_variable {name}_changed",
        "rust": "{name}: (std::sync::Mutex<{of}>, std::sync::Condvar)",
        "go": "{name} chan struct{{}}",
    },
}
_MEMBERS["several"] = _MEMBERS["counting"]
_HELD = {
    "c": "static _Thread_local struct {type} *held;",
    "c++": "static thread_local {type} *held;",
    "rust": "fn work(lent: &{type}) {{ … }}",
    "go": "func work(lent *{type}) {{ … }}",
}
"""Of what counts its references itself."""
_LENT = {"c++": "void work(const {type} &lent);", "rust": _HELD["rust"]}
"""Of what a library's pointer counts."""
_POINTER = re.compile(r"(?:std::shared_ptr|drop_in_place<alloc::sync::Arc)<((?:\w+::)*\w+)>")
_USE = {
    "counting": "each thread adds to its own, who reads sums them up",
    "written": "the writer works on own_{name} and stores to {name} what readers need, when it has "
    "changed",
    "several": "each thread writes its own, who reads combines them",
    "lock": "try it: where threads wait for the lock, its holder keeps the other line; where they "
    "do not, one line is cheaper",
    "readers": "{reads}",
    "waits": "for waits longer than waking takes: {waits}",
    "held": "each thread takes one reference for many uses: {name} changes twice in its life",
    "lent": "who has a pointer passes what it points to, and no copy of the pointer",
}
_READS = {
    "c": "of <linewright/rwlock.h>",
    "rust": "a reader takes its thread's lock, a writer takes all",
    "go": "a reader takes its own lock, a writer takes all",
}
_WAITS = {
    "c": "pthread_cond_wait, and pthread_cond_broadcast by who stores",
    "c++": "{name}_changed.wait, and notify_all by who stores",
    "rust": "Condvar::wait_while, and notify_all by who stores",
    "go": "<-{name} waits, close({name}) ends all waits, once",
}


def _in(texts: dict[str, Any], language: str) -> Any:
    """What there is for a language."""
    return texts.get(language) or texts["c"]


def code_text(hot: Hot, apart: int | None = None) -> str:
    """What to write for what is advised; empty where the evidence or the debug information does
    not say, or where the line does not move."""
    if hot.verdict.stays or hot.verdict.line_bytes != 64:
        return ""
    if hot.advised:
        return separation(hot.advised, apart)
    said = _remedy(hot, apart or APART)
    return f"in {said[0]}: {said[1]}" if said else ""


def separation(advised: LayoutAdvice, apart: int | None) -> str:
    """The separation as it is written in the type's language; empty where that is not known."""
    if not advised.members:
        return ""
    advised, language = advised.at(apart or APART), advised.language
    n, members = advised.bytes_apart, advised.members
    if language == "rust" and advised.aligned:
        members = [f"{name}: Apart<{of}>" for name, _, of in (m.partition(": ") for m in members)]
    between = _BETWEEN.get(language, "; … alignas({n}) ").format(n=n)
    shown = _SEPARATED[language][bool(advised.aligned)].format(
        type=advised.own_name or "Apart",
        n=n,
        first=members[0],
        rest=" …" * bool(advised.own_name),
        members=between.join(members),
        pad=advised.bytes_after - advised.bytes_before,
    )
    return f"in {_LANGUAGES[language]}: {shown}"


def _remedy(hot: Hot, apart: int) -> tuple[str, str] | None:
    """Language and code for what is advised for a truly shared line."""
    key, member = hot.verdict.advice[0], hot.member
    if key == "references" and (lent := _lent(hot)):
        language, shown = lent
        return _LANGUAGES[language], f"{shown} // {_USE['lent']}"
    if member is None and key == "readers" and (own := own_language(hot)):
        words = {"language": own, "type": "Shared", "name": "locks", "declared": NAME}
        member = ContendedMember(writers=2, **words)  # stands for a type that is not known
    if member is None:
        return None
    if key in ("references", "counted_uses") and member.type:
        shown = _HELD[member.language].format(type=member.type)
        use = "lent" if member.language in ("rust", "go") else "held"
        return _LANGUAGES[member.language], f"{shown} // {_USE[use].format(name=member.name)}"
    if key not in _MEMBERS or (key in ("counting", "several") and member.writers < 2):
        return None
    if key == "lock" and not member.following:
        return None
    shown = _among(member, _in(_MEMBERS[key], member.language), apart)
    use = _USE[key].format(
        name=member.name,
        reads=_in(_READS, member.language),
        waits=_WAITS[member.language].format(name=member.name),
    )
    return _LANGUAGES[member.language], f"{shown} // {use}"


def _among(member: ContendedMember, template: str, apart: int) -> str:
    """Members in place of one, in the type that it is in."""

    def declared(name: str) -> str:
        return member.declared.replace(NAME, name)

    inner = template.format(
        name=member.name,
        member=declared(member.name),
        own=declared(f"own_{member.name}"),
        value=declared("value"),
        of=declared("").removeprefix(": "),
        following=member.following,
        n=apart,
    )
    outer = _in(_INSIDE, member.language)[not member.type]
    return outer.format(type=member.type, inner=inner, n=apart)


def _lent(hot: Hot) -> tuple[str, str] | None:
    """Of std::shared_ptr and Arc the type that they lead to, by the functions that were inlined
    where the count is changed."""
    for site in hot.sites:
        for function in (*site.inlined, site.function):
            if found := _POINTER.search(function):
                language = "c++" if "shared_ptr" in found[0] else "rust"
                own = found[1].partition("::")[2] if language == "rust" else found[1]
                return language, _LENT[language].format(type=own or found[1])
    return None
