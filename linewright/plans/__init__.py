# SPDX-License-Identifier: MIT
"""The registry of plans: every module of `builtin` defines one as `PLAN`; a plan may also be a
file."""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from functools import cache
from pathlib import Path

import msgspec

from linewright.errors import UserError
from linewright.plans import builtin
from linewright.plans.definition import BuiltIn
from linewright.records import bounded
from linewright.records.files import decode_plan
from linewright.schema import Plan

LONGEST_PLAN = 256 * 1024 * 1024
"""Bytes; a plan of the most cells is far below."""


@cache
def built_in() -> dict[str, BuiltIn]:
    """Every built-in plan by name."""
    modules = sorted(module.name for module in pkgutil.iter_modules(builtin.__path__))
    plans = [importlib.import_module(f"{builtin.__name__}.{name}").PLAN for name in modules]
    return {plan.name: plan for plan in plans}


def find(name: str, where: str = "--plan") -> BuiltIn:
    """The built-in plan of a name."""
    if name not in built_in():
        allowed = f"allowed: {', '.join(built_in())}, or a plan file"
        raise UserError(f"no plan {name!r}", where, allowed)
    return built_in()[name]


def is_file(name: str) -> bool:
    """Whether ``--plan`` was given a file: it exists, or is written like a path."""
    like_path = "/" in name or name.endswith(".json")
    return bool(name) and name not in built_in() and (like_path or Path(name).exists())


def load(path: str) -> Plan:
    """A plan from a file, checked against the schema."""
    data = bounded.read(path, LONGEST_PLAN, "expected a plan file")
    if not data.strip():
        raise UserError("empty file", path, "expected a plan file")
    return decode_plan(data, path)


def digest(plan: Plan) -> str:
    """What tells one plan from another, such as those that one file held at two times: the first 16
    hexadecimal digits of its SHA-256, whichever of its launches and whatever its budget."""
    whole = msgspec.structs.replace(plan, launch=0, launches=1, budget_s=1.0)
    return hashlib.sha256(msgspec.json.encode(whole)).hexdigest()[:16]
