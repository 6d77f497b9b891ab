# SPDX-License-Identifier: MIT
"""Machine files: read, validated, listed, resolved for the simulator, and written back after a
calibration."""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from linewright.errors import UserError, cannot_read
from linewright.model.constants import DISTANCES, KINDS, ConstantKind

VERSION = 1
MOST_BYTES = 1 << 20
CLASSES = ("load", "store", "swap", "compare")
STATES = ("I", "SC", "UC", "UD")
"""Invalid, shared clean, unique clean, unique dirty."""

Provenance = Literal["measured", "fitted", "borrowed", "guessed"]
Where = Literal["near", "far", "none"]
FreeText = Annotated[str, Meta(min_length=1, max_length=2000)]


class Constant(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One constant of a machine: a value, the interval that it lies in, and where both come
    from."""

    value: float
    low: float
    high: float
    unit: Literal["ns", "count", "thousandths"]
    provenance: Provenance
    source: FreeText
    """A key of the file's ``[sources]``."""


class MachineShape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many cores there are and what they share, as equal groups of consecutive cores."""

    cores: Annotated[int, Meta(ge=1, le=256)]
    homes: Annotated[int, Meta(ge=1, le=256)]
    cores_per_l3: Annotated[int, Meta(ge=1, le=256)]
    cores_per_socket: Annotated[int, Meta(ge=1, le=256)]
    central_homes: bool = False
    """Each socket has a home half-way between its last-level caches, for the lines that several of
    them use."""


class Options(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the machine does in kind; docs/guide/model.md says what each means."""

    prefetch_dropped_while_far: bool = False
    locked_drains: bool = False
    upgrade_at_once: bool = False
    upgrade_behind_load: bool = False


class Machine(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A described machine."""

    linewright_machine: Literal[1]
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]*$(?!\n)", max_length=64)]
    title: FreeText
    arch: Literal["arm64", "x86_64"]
    calibrated: bool
    """Whether measurements of such a machine pin the constants. Otherwise the model yields bounds
    and an ordering."""
    calibration: str = ""
    """With what, and how well: one paragraph."""
    topology: MachineShape
    sources: dict[str, FreeText]
    policy: dict[str, list[Where]]
    options: Options = Options()
    constants: dict[str, Constant]
    calibrated_on: list[Annotated[str, Meta(max_length=1000)]] = []
    """Ids of the cells that the constants were fitted to."""
    fitted_to: dict[str, str] = {}
    """What the calibration holds for: digests of each constant with its interval, of the policy,
    the architecture, the mechanisms and the topology (`parts`)."""
    misses: dict[str, list[float]] = {}
    """How far the model missed cells that no fit had seen, by form and contention
    (``ldadd/same_line``): logarithms of simulated over measured."""
    posterior: list[dict[str, float]] = []
    """Draws of the fitted constants taken together, from the calibration: constants that only their
    sum is known of."""


def folder() -> Path:
    """The directory of the machine files that come with the package, or with the checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "machines"
    return inside if inside.is_dir() else package.parent / "machines"


def known() -> dict[str, Path]:
    """Every machine that comes along, by name."""
    return {path.stem: path for path in sorted(folder().glob("*.toml"))}


def listing() -> tuple[str, dict[str, str]]:
    """What each machine is, for `linewright list`, and what names one."""
    machines = {name: load(path) for name, path in known().items()}
    about = {
        name: f"{'calibrated' if machine.calibrated else 'example'}: {machine.title} "
        f"({machine.arch}, {machine.topology.cores} cores)"
        for name, machine in machines.items()
    }
    return "Machines, for `measure --on model:NAME` and `model machines NAME`", about


def calibrated() -> list[str]:
    """Names of those that plans run on; the others are examples for `linewright model explain`."""
    return [name for name, path in known().items() if load(path).calibrated]


def find(name: str, where: str = "--on model:NAME") -> Machine:
    """The machine of a name, or of a file: a path, or the name of a ``.toml`` file in this
    folder."""
    if "/" in name or name.endswith(".toml"):
        return load(Path(name))
    paths = known()
    if name not in paths and (own := Path(f"{name}.toml")).is_file():
        return load(own)
    allowed = f"allowed: {', '.join(paths)}, or the path of a machine file"
    need(name in paths, f"no machine {name!r}", where, allowed)
    return load(paths[name])


def load(path: Path) -> Machine:
    """A machine from its file, every constant checked."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error, "expected a machine file") from None
    return parse(data, str(path))


def parse(data: bytes, where: str) -> Machine:
    """A machine from the bytes of a file; UserError says which line of the description cannot
    be."""
    small = len(data) <= MOST_BYTES
    need(small, f"larger than {MOST_BYTES} bytes", where, "expected a machine file")
    try:
        tree = tomllib.loads(data.decode("utf-8"))
        machine = msgspec.convert(tree, Machine)
    except UnicodeDecodeError:
        raise UserError("not UTF-8", where, "a machine file is TOML") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"not TOML: {error}", where, "expected a machine file") from None
    except msgspec.ValidationError as error:
        said = str(error)
        if "missing required field `provenance`" in said and "`$.constants[...]`" in said:
            said = "a constant without provenance"  # the rule that it breaks
        raise UserError(said, where, "docs/guide/model.md describes machine files") from None
    _check(machine, where)
    return machine


def need(held: object, what: str, where: str, allowed: str = "") -> None:
    """UserError unless what was needed holds."""
    if not held:
        raise UserError(what, where, allowed)


def _check(machine: Machine, where: str) -> None:
    kinds = {**KINDS, **DISTANCES}
    _check_constants(machine, kinds, where)
    for name in ("cores_per_l3", "cores_per_socket"):
        cores, size = machine.topology.cores, getattr(machine.topology, name)
        need(cores % size == 0, f"{cores} cores are not groups of {name} = {size}", where)
    stated, expected = ", ".join(machine.policy), f"expected {', '.join(CLASSES)}"
    need(set(machine.policy) == set(CLASSES), f"policy states {stated}", where, expected)
    states = f"one for each of {', '.join(STATES)}"
    for name, row in machine.policy.items():
        need(len(row) == len(STATES), f"policy.{name} has {len(row)} entries", where, states)
    for number, draw in enumerate(machine.posterior):
        for name, value in draw.items():
            known = name in machine.constants
            need(known, f"posterior[{number}] names unknown constant {name}", where)
            _check_range(name, value, kinds[name], where)


def _check_constants(machine: Machine, kinds: Mapping[str, ConstantKind], where: str) -> None:
    for name in sorted(set(kinds) - set(machine.constants)):
        raise UserError(f"constant {name} is missing", where, kinds[name].meaning)
    sources = ", ".join(machine.sources) or "none"
    for name, c in machine.constants.items():
        every = "`linewright model machines NAME` has all"
        need(name in kinds, f"no constant {name!r}", where, every)
        kind, of = kinds[name], f"constant {name}"
        need(c.unit == kind.unit, f"{of} is in {c.unit}", where, f"its unit is {kind.unit}")
        for value in (c.low, c.value, c.high):
            _check_range(name, value, kind, where)
        inside = c.low <= c.value <= c.high
        need(inside, f"{of}: {c.value:g} lies outside its interval", where, "low <= value <= high")
        known = c.source in machine.sources
        need(known, f"{of} has source {c.source!r}", where, f"[sources] has {sources}")


def _check_range(name: str, value: float, kind: ConstantKind, where: str) -> None:
    need(
        math.isfinite(value) and kind.low <= value <= kind.high,
        f"constant {name}: {value:g} is out of range",
        where,
        f"from {kind.low:g} to {kind.high:g} {kind.unit}",
    )


def resolve(machine: Machine, draw: Mapping[str, float] | None = None) -> dict:
    """What the simulator is given: integers, matrices, no intervals. `draw` replaces constants by
    name."""
    values = {name: constant.value for name, constant in machine.constants.items()}
    values.update(draw or {})
    constants = {}
    for name, kind in KINDS.items():
        if kind.unit == "ns":
            constants[f"{name}_ps"] = max(round(values[name] * 1000), 1 if kind.low > 0 else 0)
        else:
            constants[name] = max(round(values[name]), int(kind.low))
    topology = machine.topology
    between = _between(topology, [round(values[name] * 1000) for name in DISTANCES])
    cores, homes = topology.cores, topology.homes
    stops = [home * cores // homes for home in range(homes)]
    centres = range(0, cores, topology.cores_per_socket) if topology.central_homes else ()
    return {
        "linewright_machine": VERSION,
        "name": machine.name,
        "arch": machine.arch,
        "cores": cores,
        "homes": homes + len(centres),
        "central_homes": len(centres),
        "core_home": [
            [row[stop] for stop in stops]
            + [_to_centre(topology, between, core, first) for first in centres]
            for core, row in enumerate(between)
        ],
        "core_core": between,
        "l3": [core // topology.cores_per_l3 for core in range(cores)],
        "socket": [core // topology.cores_per_socket for core in range(cores)],
        "constants": constants,
        "options": msgspec.structs.asdict(machine.options),
        "policy": {name: machine.policy[name] for name in CLASSES},
    }


def _between(shape: MachineShape, steps: Sequence[int]) -> list[list[int]]:
    """One-way distances between cores, in picoseconds: of three steps the first within a last-level
    cache, the second within a socket, else the third."""

    def between(a: int, b: int) -> int:
        if a == b:
            return 0
        if a // shape.cores_per_l3 == b // shape.cores_per_l3:
            return steps[0]
        return steps[1 if a // shape.cores_per_socket == b // shape.cores_per_socket else 2]

    return [[between(a, b) for b in range(shape.cores)] for a in range(shape.cores)]


def _to_centre(topology: MachineShape, between: list[list[int]], core: int, first: int) -> int:
    """One way from a core to the home half-way between the last-level caches of the socket that
    begins with core `first`."""
    socket = range(first, first + topology.cores_per_socket)
    half = max(between[a][b] for a in socket for b in socket) // 2
    return half if core in socket else between[core][first] - half


def parts(machine: Machine) -> dict[str, str]:
    """A digest of each thing that a calibration holds for: of a constant the value and its
    interval, as files have them, and of the rest what is switched on or stated."""
    described = {
        name: [f"{value:.6g}" for value in (c.value, c.low, c.high)]
        for name, c in machine.constants.items()
    }
    described["policy"] = {name: machine.policy[name] for name in CLASSES}
    described["arch"] = machine.arch
    for name in ("options", "topology"):
        fields = msgspec.structs.asdict(getattr(machine, name))
        described[name] = {key: value for key, value in fields.items() if value}
    return {
        name: hashlib.sha256(json.dumps(what).encode()).hexdigest()[:8]
        for name, what in described.items()
    }


def edited(machine: Machine) -> list[str]:
    """What was changed since the calibration: constants by name, ``policy``, ``arch``, ``options``,
    ``topology``. None of a machine that was never fitted."""
    now = parts(machine)
    return [name for name, was in machine.fitted_to.items() if now.get(name) != was]


def renamed(machine: Machine, name: str) -> Machine:
    """The machine under another name, which is its file's; UserError when no machine may be called
    so."""
    tree = msgspec.to_builtins(machine) | {"name": name}
    try:
        return msgspec.convert(tree, Machine)
    except msgspec.ValidationError:
        allowed = "a-z, 0-9 and -; up to 64 characters"
        raise UserError(f"no machine may be called {name!r}", "-o", allowed) from None


def to_toml(machine: Machine) -> str:
    """The text of a machine file."""
    tree = msgspec.to_builtins(machine)
    lines = [f"# {machine.title}"]
    for name in ("linewright_machine", "name", "title", "arch", "calibration", "calibrated"):
        lines.append(f"{name} = {_toml(tree[name])}")
    for name in ("calibrated_on", "posterior"):
        if tree[name]:
            lines += [f"{name} = [", *(f"  {_toml(row)}," for row in tree[name]), "]"]
    if tree["fitted_to"]:
        told = "digests: they tell what was changed"
        lines.append(f"fitted_to = {_toml(tree['fitted_to'])} # {told}")
    for name, comment in TABLES.items():
        if tree[name]:
            lines += ["", f"[{name}]{comment}"]
            lines += [f"{_key(key)} = {_toml(value)}" for key, value in tree[name].items()]
    return "\n".join(lines) + "\n"


TABLES = {
    "topology": "",
    "sources": "",
    "policy": " # where each class is performed when the core holds the line I, SC, UC, UD",
    "options": "",
    "constants": "",
    "misses": " # log(simulated / measured) of cells that no fit had seen",
}
"""The tables of a file in their order, with what is said beside their names."""


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _toml(value: object) -> str:
    """A value as TOML: as JSON has it, but for tables, and for numbers in six digits."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_toml(v)}' for key, v in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, ensure_ascii=False)
