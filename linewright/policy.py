# SPDX-License-Identifier: MIT
"""The grammar of LINEWRIGHT_ATOMICS, as the library reads it (src/atomic/policy_parse.c; a test
holds the two together), and what one class of operations does under a setting."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from linewright.errors import UserError

FORMS = ("store", "load", "llsc")
CLASSES = ("void", "fetch", "xchg", "cas")
ALLOWED = (
    "allowed: default, or a comma list of store|load|llsc, prefetch, "
    "void=store|load|llsc|prefetch, fetch|xchg|cas=load|llsc|prefetch"
)


class Policy(Struct, frozen=True):
    """What one class of operations does."""

    form: str = ""
    """One of `FORMS`; empty for what the CPU's default is."""
    prefetch: bool = False
    """Whether the line is asked for first."""

    def words(self) -> str:
        """``store with prefetch``."""
        return " with ".join([self.form or "default"] + ["prefetch"] * self.prefetch)

    def beyond(self, default: Policy) -> Policy:
        """The same without what it has in common with the default."""
        return Policy("" if self.form == default.form else self.form, self.prefetch)


def one_form(machine: str) -> str:
    """Why no setting has an effect on a machine whose architecture leaves no choice."""
    return f"on {machine} each atomic operation has one form"


def read(text: str, where: str) -> dict[str, Policy]:
    """What each class does under a setting. Raises UserError naming the item that is wrong and what
    is allowed."""
    forms: dict[str, str] = {}
    prefetched = set()
    for item in [] if text in ("", "default") else text.split(","):
        name, equals, value = item.partition("=") if "=" in item else ("", "", item)
        if wrong := _wrong(name, equals, value, forms):
            raise UserError(f"{item[:40]!r} {wrong}", where, ALLOWED)
        if value == "prefetch":
            prefetched.add(name)
        else:
            forms[name] = value
    general = {"store": "load"}.get(forms.get("", ""), forms.get("", ""))  # only void has a store
    usual = dict.fromkeys(CLASSES, general) | {"void": forms.get("", "")}
    return {
        name: Policy(forms.get(name, usual[name]), bool(prefetched & {"", name}))
        for name in CLASSES
    }


def setting(chosen: Mapping[str, Policy]) -> str:
    """The value of LINEWRIGHT_ATOMICS under which each class does what is chosen for it."""
    items = []
    for name, policy in chosen.items():
        items += [f"{name}={policy.form}"] if policy.form else []
        items += [f"{name}=prefetch"] if policy.prefetch else []
    return ",".join(items) or "default"


def of_parameter(text: str) -> str:
    """A setting as a user writes it, of a cell's parameter ``policy``, which has no commas and
    equals signs (probe/operations.cpp)."""
    return text.replace("+", ",").replace("-", "=")


def _wrong(name: str, equals: str, value: str, chosen: Mapping[str, str]) -> str:
    """Why an item cannot stand where it does, or nothing."""
    if not equals and not value:
        return "is an empty item"
    if equals and name not in CLASSES:
        return "names no class of operations"
    if value == "prefetch":
        return ""
    if value not in FORMS:
        return "stands alone" if value == "default" else "is unknown"
    if value == "store" and name not in ("", "void"):
        return "is impossible: operations that return a value have no store form"
    return "contradicts an earlier form" if chosen.get(name, value) != value else ""
