"""Machine files: read, validated, listed, resolved for the simulator, and written back after a calibration."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from linewright.errors import UserError
from linewright.model.constants import DISTANCES, KINDS, Kind

VERSION = 1
MOST_BYTES = 1 << 20
CLASSES = ("load", "store", "swap", "compare")
STATES = ("I", "SC", "UC", "UD")
"""Invalid, shared clean, unique clean, unique dirty."""

Provenance = Literal["measured", "fitted", "borrowed", "guessed"]
Where = Literal["near", "far", "none"]
Text = Annotated[str, Meta(min_length=1, max_length=2000)]


class Constant(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One constant of a machine: a value, the interval that it lies in, and where both come from."""

    value: float
    low: float
    high: float
    unit: Literal["ns", "count", "thousandths"]
    provenance: Provenance
    source: Text
    """A key of the file's ``[sources]``."""


class Topology(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many cores there are and what they share, as equal groups of consecutive cores."""

    cores: Annotated[int, Meta(ge=1, le=256)]
    homes: Annotated[int, Meta(ge=1, le=256)]
    cores_per_cluster: Annotated[int, Meta(ge=1, le=256)]
    cores_per_l3: Annotated[int, Meta(ge=1, le=256)]
    cores_per_socket: Annotated[int, Meta(ge=1, le=256)]
    central_homes: bool = False
    """Each socket has a home half-way between its last-level caches, for the lines that several of them use."""
    round_trips_ns: list[list[float]] | dict[Literal["same_l3", "other_l3", "other_socket"], float] | None = None
    """Core-to-core round trips of a published matrix, or its medians by class; only their differences are used, as
    distances."""


class Options(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the machine does in kind; docs/guide/model.md says what each means."""

    prefetch_dropped_while_far: bool = False
    store_waits_for_fill: bool = True
    fill_then_far: bool = False
    exclusive_load_unique: bool = False
    locked_drains: bool = False
    one_bus: bool = False
    clean_from_memory: bool = False
    upgrade_at_once: bool = False
    upgrade_behind_load: bool = False
    far_when_contended: bool = False


class Machine(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A described machine."""

    linewright_machine: Literal[1]
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)]
    title: Text
    arch: Literal["arm64", "x86_64"]
    calibrated: bool
    """Whether measurements of such a machine pin the constants. Otherwise the model yields bounds and an ordering."""
    calibration: str = ""
    """With what, and how well: one paragraph."""
    topology: Topology
    sources: dict[str, Text]
    policy: dict[str, list[Where]]
    options: Options = Options()
    constants: dict[str, Constant]
    calibrated_on: list[Annotated[str, Meta(max_length=1000)]] = []
    """Ids of the cells that the constants were fitted to."""
    posterior: list[dict[str, float]] = []
    """Draws of the fitted constants taken together, from the calibration: constants that only their sum is known of."""


def folder() -> Path:
    """The directory of the machine files that come with the package, or with the checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "machines"
    return inside if inside.is_dir() else package.parent / "machines"


def known() -> dict[str, Path]:
    """Every machine that comes along, by name."""
    return {path.stem: path for path in sorted(folder().glob("*.toml"))}


def find(name: str, where: str = "--on model:NAME") -> Machine:
    """The machine of a name, or of a file where the name is written like a path."""
    if "/" in name or name.endswith(".toml"):
        return load(Path(name))
    paths = known()
    if name not in paths:
        raise UserError(f"no machine {name!r}", where, f"allowed: {', '.join(paths)}, or the path of a machine file")
    return load(paths[name])


def load(path: Path) -> Machine:
    """A machine from its file, every constant checked."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(error.strerror or str(error), str(path), "expected a machine file") from None
    return parse(data, str(path))


def parse(data: bytes, where: str) -> Machine:
    """A machine from the bytes of a file; UserError says which line of the description cannot be."""
    if len(data) > MOST_BYTES:
        raise UserError(f"larger than {MOST_BYTES} bytes", where, "expected a machine file")
    try:
        tree = tomllib.loads(data.decode("utf-8"))
        machine = msgspec.convert(tree, Machine)
    except UnicodeDecodeError:
        raise UserError("not UTF-8", where, "a machine file is TOML") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"not TOML: {error}", where, "expected a machine file") from None
    except msgspec.ValidationError as error:
        raise UserError(_plain(str(error)), where, "docs/guide/model.md describes machine files") from None
    _check(machine, where)
    return machine


def _plain(message: str) -> str:
    """msgspec's message, with the missing provenance named as the rule that it breaks."""
    if "missing required field `provenance`" in message:
        place = re.search(r"`\$\.constants\[\.\.\.\]`", message)
        return "a constant without provenance" if place else message
    return message


def _check(machine: Machine, where: str) -> None:
    _check_constants(machine, where)
    _check_topology(machine, where)
    if set(machine.policy) != set(CLASSES):
        raise UserError(f"policy states {', '.join(machine.policy)}", where, f"expected {', '.join(CLASSES)}")
    for name, row in machine.policy.items():
        if len(row) != len(STATES):
            raise UserError(f"policy.{name} has {len(row)} entries", where, f"one for each of {', '.join(STATES)}")
    for number, draw in enumerate(machine.posterior):
        unknown = sorted(set(draw) - set(machine.constants))
        if unknown:
            raise UserError(f"posterior[{number}] names unknown constant {unknown[0]}", where)
        for name, value in draw.items():
            _check_range(name, value, {**KINDS, **DISTANCES}[name], where)


def _check_constants(machine: Machine, where: str) -> None:
    kinds = {**KINDS, **DISTANCES}
    needed = set(KINDS) if machine.topology.round_trips_ns is not None else set(kinds)
    for name in sorted(needed - set(machine.constants)):
        raise UserError(f"constant {name} is missing", where, kinds[name].meaning)
    for name, constant in machine.constants.items():
        if name not in kinds:
            raise UserError(f"no constant {name!r}", where, "`linewright machines NAME` lists them")
        kind = kinds[name]
        if constant.unit != kind.unit:
            raise UserError(f"constant {name} is in {constant.unit}", where, f"its unit is {kind.unit}")
        for value in (constant.low, constant.value, constant.high):
            _check_range(name, value, kind, where)
        if not constant.low <= constant.value <= constant.high:
            raise UserError(
                f"constant {name}: {constant.value:g} lies outside its interval", where, "low <= value <= high"
            )
        if constant.source not in machine.sources:
            raise UserError(
                f"constant {name} has source {constant.source!r}",
                where,
                f"[sources] has {', '.join(machine.sources) or 'none'}",
            )


def _check_range(name: str, value: float, kind: Kind, where: str) -> None:
    if not math.isfinite(value) or not kind.low <= value <= kind.high:
        raise UserError(
            f"constant {name}: {value:g} is out of range", where, f"from {kind.low:g} to {kind.high:g} {kind.unit}"
        )


def _check_topology(machine: Machine, where: str) -> None:
    topology = machine.topology
    for name in ("cores_per_cluster", "cores_per_l3", "cores_per_socket"):
        if topology.cores % getattr(topology, name):
            raise UserError(f"{topology.cores} cores are not groups of {name} = {getattr(topology, name)}", where)
    if topology.round_trips_ns is None:
        return
    matrix = _round_trips(topology, where)
    if len(matrix) != topology.cores or any(len(row) != topology.cores for row in matrix):
        raise UserError("topology.round_trips_ns is not square", where, f"{topology.cores} rows of {topology.cores}")
    for row in matrix:
        for value in row:
            if not math.isfinite(value) or not 0 <= value <= 1e5:
                raise UserError(f"topology.round_trips_ns: {value:g} is out of range", where, "from 0 to 100000 ns")


def _round_trips(topology: Topology, where: str = "") -> list[list[float]]:
    """The matrix of round trips, spelled out where the file gives one for each class; UserError where a class is
    missing."""
    given = topology.round_trips_ns
    if isinstance(given, list):
        return given
    names = ("same_l3", "other_l3", "other_socket")
    classes = [[_class(topology, a, b) for b in range(topology.cores)] for a in range(topology.cores)]
    for missing in sorted({names[step] for row in classes for step in row if step is not None} - set(given)):
        raise UserError(f"topology.round_trips_ns has no {missing}", where, "the machine has pairs of that class")
    return [[0.0 if step is None else given[names[step]] for step in row] for row in classes]


def resolve(machine: Machine, draw: Mapping[str, float] | None = None) -> dict:
    """What the simulator is given: integers, matrices, no intervals. `draw` replaces constants by name."""
    values = {name: constant.value for name, constant in machine.constants.items()}
    values.update(draw or {})
    constants = {}
    for name, kind in KINDS.items():
        if kind.unit == "ns":
            constants[f"{name}_ps"] = max(round(values[name] * 1000), 1 if kind.low > 0 else 0)
        else:
            constants[name] = max(round(values[name]), int(kind.low))
    between = _between(machine, values)
    cores, homes = machine.topology.cores, machine.topology.homes
    stops = [home * cores // homes for home in range(homes)]
    topology = machine.topology
    centres = range(0, cores, topology.cores_per_socket) if topology.central_homes else ()
    return {
        "linewright_machine": VERSION,
        "name": machine.name,
        "arch": machine.arch,
        "calibrated": machine.calibrated,
        "cores": cores,
        "homes": homes + len(centres),
        "central_homes": len(centres),
        "core_home": [
            [row[stop] for stop in stops] + [_to_centre(topology, between, core, first) for first in centres]
            for core, row in enumerate(between)
        ],
        "core_core": between,
        "cluster": [core // topology.cores_per_cluster for core in range(cores)],
        "l3": [core // topology.cores_per_l3 for core in range(cores)],
        "socket": [core // topology.cores_per_socket for core in range(cores)],
        "constants": constants,
        "options": msgspec.structs.asdict(machine.options),
        "policy": {name: machine.policy[name] for name in CLASSES},
    }


def _between(machine: Machine, values: Mapping[str, float]) -> list[list[int]]:
    """One-way distances between places, in picoseconds."""
    topology = machine.topology
    cores = range(topology.cores)
    if topology.round_trips_ns is not None:
        # A round trip crosses the distance several times; what all pairs share is in the other constants.
        matrix = _round_trips(topology)
        least = min(matrix[a][b] for a in cores for b in cores if a != b) if topology.cores > 1 else 0
        crossings = CENTRAL_CROSSINGS if topology.central_homes else CROSSINGS
        return [[0 if a == b else round((matrix[a][b] - least) / crossings * 1000) for b in cores] for a in cores]
    steps = [round(values[name] * 1000) for name in DISTANCES]
    classes = [[_class(topology, a, b) for b in cores] for a in cores]
    return [[0 if step is None else steps[step] for step in row] for row in classes]


def _to_centre(topology: Topology, between: list[list[int]], core: int, first: int) -> int:
    """One way from a core to the home half-way between the last-level caches of the socket that begins with core
    `first`."""
    socket = range(first, first + topology.cores_per_socket)
    half = max(between[a][b] for a in socket for b in socket) // 2
    return half if core in socket else between[core][first] - half


CROSSINGS = 8
"""One-way distances in a round trip of two handoffs: request, snoop, data and acknowledgement of each."""
CENTRAL_CROSSINGS = 4
"""The same where homes stand half-way: two halves and one whole in each handoff, while the next request is waiting
already."""


def _class(topology: Topology, a: int, b: int) -> int | None:
    """How far two cores lie apart: 0 same last-level cache, 1 same socket, 2 other socket; None for one and the
    same."""
    if a == b:
        return None
    if a // topology.cores_per_l3 == b // topology.cores_per_l3:
        return 0
    return 1 if a // topology.cores_per_socket == b // topology.cores_per_socket else 2


def resolved_json(machine: Machine, draw: Mapping[str, float] | None = None) -> str:
    """The resolved machine as one line, the same text for the same machine."""
    return json.dumps(resolve(machine, draw), separators=(",", ":"))


def renamed(machine: Machine, name: str) -> Machine:
    """The machine under another name, which is its file's; UserError when no machine may be called so."""
    tree = msgspec.to_builtins(machine) | {"name": name}
    try:
        return msgspec.convert(tree, Machine)
    except msgspec.ValidationError:
        raise UserError(f"no machine may be called {name!r}", "-o", "a-z, 0-9 and -; up to 64 characters") from None


def to_toml(machine: Machine) -> str:
    """The text of a machine file."""
    lines = [f"# {machine.title}", f"linewright_machine = {VERSION}"]
    for name in ("name", "title", "arch", "calibration"):
        lines.append(f"{name} = {_quoted(getattr(machine, name))}")
    lines.append(f"calibrated = {_bool(machine.calibrated)}")
    lines += ["calibrated_on = [", *(f"  {_quoted(cell)}," for cell in machine.calibrated_on), "]"]
    lines += ["", "[topology]"]
    for name, value in msgspec.structs.asdict(machine.topology).items():
        if isinstance(value, bool):
            lines.append(f"{name} = {_bool(value)}")
        elif isinstance(value, dict):
            lines.append(f"{name} = {{ {', '.join(f'{key} = {ns}' for key, ns in value.items())} }}")
        elif value is not None:
            lines.append(f"{name} = {value}")
    lines += ["", "[sources]"]
    lines += [f"{name} = {_quoted(text)}" for name, text in machine.sources.items()]
    lines += ["", "[policy] # where each class is performed when the core holds the line I, SC, UC, UD"]
    lines += [f"{name} = {json.dumps(machine.policy[name])}" for name in CLASSES]
    lines += ["", "[options]"]
    lines += [f"{name} = {_bool(value)}" for name, value in msgspec.structs.asdict(machine.options).items()]
    lines += ["", "[constants]"]
    for name, c in machine.constants.items():
        lines.append(
            f"{name} = {{ value = {c.value:.6g}, low = {c.low:.6g}, high = {c.high:.6g}, "
            f'unit = "{c.unit}", provenance = "{c.provenance}", source = {_quoted(c.source)} }}'
        )
    for draw in machine.posterior:
        lines += ["", "[[posterior]]", *(f"{name} = {value:.6g}" for name, value in draw.items())]
    return "\n".join(lines) + "\n"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
