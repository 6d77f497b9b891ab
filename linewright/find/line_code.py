# SPDX-License-Identifier: MIT
"""The code that a remedy is, for a line's own type and in its language: only where what was seen
supports that remedy, and from declarations that the debug information has."""

from __future__ import annotations

import re

from linewright.elf.declarations import NAME
from linewright.find.line_verdict import own_language, typed_lock
from linewright.find.line_words import texts
from linewright.find.results import APART, ContendedMember, Hot, LayoutAdvice

_LANGUAGES = {"c": "C", "c++": "C++", "rust": "Rust", "go": "Go"}
_CODE = texts("""
element_c: struct {type} {{ alignas({n}) {first};{rest} }};
element_c++: struct alignas({n}) {type} {{ {first};{rest} }};
element_rust: #[repr(align({n}))] struct {type} {{ {first},{rest} }}
element_go: type {type} struct {{ {first};{rest} _ [{pad}]byte }}
fields_c: struct {type} {{ … alignas({n}) {members}; … }};
fields_rust: #[repr(align({n}))] struct Apart<T>(T); struct {type} {{ … {members}, … }}
fields_go: type {type} struct {{ … _ [{n}]byte; {members}; … }}
between_c: ; … alignas({n})
between_rust: , …
between_go: ; … _ [{n}]byte;
inside_c: struct {type} {{ … {inner}; … }};
inside_rust: #[repr(align({n}))] struct Apart<T>(T); struct {type} {{ … {inner}, … }}
inside_go: type {type} struct {{ … {inner}; … }}
variable_c: static {inner};
variable_go: var {inner}
counting_c: struct {{ alignas({n}) {value}; }} {name}[THREADS]
counting_rust: {name}: [Apart<{of}>; THREADS]
counting_go: {name} [threads]struct {{ {value}; _ [{n}]byte }}
written_c: {own}; alignas({n}) {member}
written_rust: own_{member}, {name}: Apart<{of}>
written_go: {own}; _ [{n}]byte; {member}; _ [{n}]byte
lock_c: {member}; alignas({n}) {following}
lock_rust: {name}: Apart<{of}>, {following}
lock_go: {member}; _ [{n}]byte; {following}
readers_c: struct lw_rwlock {name}
readers_rust: {name}: [Apart<std::sync::RwLock<()>>; THREADS]
readers_go: {name} [threads]struct {{ sync.RWMutex; _ [{n}]byte }}
waits_c: {member}; pthread_mutex_t {name}_lock; pthread_cond_t {name}_changed
waits_c++: {member}; std::mutex {name}_lock; std::condition_variable {name}_changed
waits_rust: {name}: (std::sync::Mutex<{of}>, std::sync::Condvar)
waits_go: {name} chan struct{{}}
held_c: static _Thread_local struct {type} *held;
held_c++: static thread_local {type} *held;
lent_c++: void work(const {type} &lent);
lent_rust: fn work(lent: &{type}) {{ … }}
lent_go: func work(lent *{type}) {{ … }}
open: a member of {type}; which of those that several threads use, this run does not show
""")
"""What to write: `element` gets lines of its own, or `fields` of it do, with what stands `between`
them; other members stand `inside` a structure, or are a `variable`, of which the Rust compiler
tells nothing. `held`: of what counts its references itself; `lent`: of what a library's pointer
counts; `open`: there are several, and which one is meant is not known."""
_USE = texts("""
counting: each thread adds to its own, who reads sums them up
written: the writer works on own_{name} and stores to {name} what readers need, when it has changed
several: each thread writes its own, who reads combines them
lock: try it: where threads wait for the lock, its holder keeps the other line; where they do not,
  one line is cheaper
readers_c: of <linewright/rwlock.h>
readers_rust: a reader takes its thread's lock, a writer takes all
readers_go: a reader takes its own lock, a writer takes all
waits_c: for waits longer than waking takes: pthread_cond_wait, and pthread_cond_broadcast by who
  stores
waits_c++: for waits longer than waking takes: {name}_changed.wait, and notify_all by who stores
waits_rust: for waits longer than waking takes: Condvar::wait_while, and notify_all by who stores
waits_go: for waits longer than waking takes: <-{name} waits, close({name}) ends all waits, once
held: each thread takes one reference for many uses: {name} changes twice in its life
lent: who has a pointer passes what it points to, and no copy of the pointer
""")
_POINTER = re.compile(r"(?:std::shared_ptr|drop_in_place<alloc::sync::Arc)<((?:\w+::)*\w+)>")


def _in(table: dict[str, str], key: str, language: str) -> str:
    """What there is for a language, for C++ what C has where it has nothing of its own."""
    found = (table.get(name) for name in (f"{key}_{language}", f"{key}_c", key))
    return next((text for text in found if text), "")


def code_text(hot: Hot, apart: int | None = None) -> str:
    """What to write for what is advised; empty where the evidence or the debug information does
    not say, or where the line does not move."""
    if hot.verdict.stays or hot.verdict.line_bytes != 64:
        return ""
    if hot.advised:
        return separation(hot.advised, apart)
    return _remedy(hot, apart or APART)


def separation(advised: LayoutAdvice, apart: int | None) -> str:
    """The separation as it is written in the type's language; empty where that is not known."""
    if not advised.members:
        return ""
    advised, language = advised.at(apart or APART), advised.language
    n, members = advised.bytes_apart, advised.members
    if language == "rust" and advised.aligned:
        members = [f"{name}: Apart<{of}>" for name, _, of in (m.partition(": ") for m in members)]
    between = _in(_CODE, "between", language).format(n=n)
    shown = _in(_CODE, "fields" if advised.aligned else "element", language).format(
        type=advised.own_name or "Apart",
        n=n,
        first=members[0],
        rest=" …" * bool(advised.own_name),
        members=f"{between} ".join(members),
        pad=advised.bytes_after - advised.bytes_before,
    )
    return f"in {_LANGUAGES[language]}: {shown}"


def _remedy(hot: Hot, apart: int) -> str:
    """Language and code for what is advised for a truly shared line."""
    key, member = hot.verdict.advice[0], hot.member
    if key == "references" and (lent := _lent(hot)):
        return lent
    if member is None and key == "readers" and (own := own_language(hot)):
        words = {"language": own, "type": "Shared", "name": "locks", "declared": NAME}
        member = ContendedMember(writers=2, **words)  # stands for a type that is not known
    if member is None:
        return ""
    language, name, type_ = member.language, member.name, member.type
    counts = key in ("references", "counted_uses")
    template = _in(_CODE, "counting" if key == "several" else key, language)
    if not member.shown:
        said = f"in {_LANGUAGES[language]}: {_CODE['open'].format(type=type_)}"
        return said if type_ and (counts or template) else ""
    if counts and type_:
        use = "lent" if language in ("rust", "go") else "held"
        return _shown(use, language, _in(_CODE, use, language).format(type=type_), name)
    if not template or (key in ("counting", "several") and member.writers < 2):
        return ""
    known = typed_lock(hot) or any(site.role in ("waits", "takes") for site in hot.sites)
    if key == "lock" and not (member.following and known):  # or what it protects is used more
        return ""
    if language == "rust" and not type_:
        return ""

    def declared(name: str) -> str:
        return member.declared.replace(NAME, name)

    inner = template.format(
        name=name,
        member=declared(name),
        own=declared(f"own_{name}"),
        value=declared("value"),
        of=declared("").removeprefix(": "),
        following=member.following,
        n=apart,
    )
    outer = _in(_CODE, "inside" if type_ else "variable", language)
    return _shown(key, language, outer.format(type=type_, inner=inner, n=apart), name)


def _shown(use: str, language: str, code: str, name: str = "") -> str:
    """The code, and how it is used."""
    return f"in {_LANGUAGES[language]}: {code} // {_in(_USE, use, language).format(name=name)}"


def _lent(hot: Hot) -> str:
    """Of std::shared_ptr and Arc what takes the type that they lead to, by the functions that were
    inlined where the count is changed."""
    for site in hot.sites:
        for function in (*site.inlined, site.function):
            if found := _POINTER.search(function):
                language = "c++" if "shared_ptr" in found[0] else "rust"
                own = found[1].partition("::")[2] if language == "rust" else found[1]
                code = _in(_CODE, "lent", language).format(type=own or found[1])
                return _shown("lent", language, code)
    return ""
