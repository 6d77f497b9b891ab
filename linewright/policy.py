"""The grammar of LINEWRIGHT_ATOMICS, as the library reads it (src/atomic/policy_parse.c; a test
holds the two together)."""

from __future__ import annotations

from linewright.errors import UserError

FORMS = ("store", "load", "llsc")
CLASSES = ("void", "fetch", "xchg", "cas")
ALLOWED = (
    "allowed: default, or a comma list of store|load|llsc, prefetch, "
    "void=store|load|llsc|prefetch, fetch|xchg|cas=load|llsc|prefetch"
)


def one_form(machine: str) -> str:
    """Why no setting has an effect on a machine whose architecture leaves no choice."""
    return f"on {machine} each atomic operation has one form"


def check(text: str, where: str) -> str:
    """The setting, if it is one. Raises UserError naming the item that is wrong and what is
    allowed."""
    if text in ("", "default"):
        return text
    chosen: dict[str, str] = {}
    for item in text.split(","):
        if wrong := _wrong(item, chosen):
            raise UserError(f"{item[:40]!r} {wrong}", where, ALLOWED)
    return text


def _wrong(item: str, chosen: dict[str, str]) -> str:
    """Why an item cannot stand where it does, or nothing; remembers each class's form in
    `chosen`."""
    if not item:
        return "is an empty item"
    name, equals, value = item.partition("=") if "=" in item else ("", "", item)
    if equals and name not in CLASSES:
        return "names no class of operations"
    if value == "prefetch":
        return ""
    if value not in FORMS:
        return "stands alone" if value == "default" else "is unknown"
    if value == "store" and name not in ("", "void"):
        return "is impossible: operations that return a value have no store form"
    if chosen.setdefault(name, value) != value:
        return "contradicts an earlier form"
    return ""
