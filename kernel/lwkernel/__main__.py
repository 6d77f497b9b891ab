"""kernel/build: makes a small bootable kernel from Debian's sources, with and without our patches.

    kernel/build SERIES ARCH [--patch NAME]… [--fragment NAME]… [--jobs N]
        builds; prints the folder
    kernel/build SERIES ARCH --tree FOLDER [--patch NAME]…
        the patched sources alone, for a build of your own
    kernel/build SERIES ARCH --diff [--patch NAME]…
        the change as a unified diff, on standard output
    kernel/build --list
        patches and fragments

SERIES is 6.1, 6.12 or 7.3, ARCH arm64, x86_64, i386 or riscv; `--patch all` takes every patch that this kernel can
have. The folder holds vmlinuz, patches.diff, log, and source/out with vmlinux, .config and what a module is built
against (KDIR=FOLDER/source/out). Debian's sources are fetched once, by apt, into
${XDG_CACHE_HOME:-~/.cache}/linewright; what --tree makes shares no file with them.

Exit code: 0 done; 2 the request was wrong; 3 a step failed (says where its log is); 77 something is missing here (names
the package).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from . import builder, configuration, edits, patches, sources
from .errors import Failed, Missing, Refused


def parsed(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kernel/build",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="see below",
    )
    parser.add_argument("series", nargs="?")
    parser.add_argument("arch", nargs="?")
    parser.add_argument("--patch", action="append", default=[], metavar="NAME")
    parser.add_argument("--fragment", action="append", default=[], metavar="NAME")
    parser.add_argument("--jobs", type=int, metavar="N")
    parser.add_argument("--tree", type=Path, metavar="FOLDER")
    parser.add_argument("--diff", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(argv)
    if not options.list and not (options.series and options.arch):
        parser.error("SERIES and ARCH, as in: kernel/build 6.12 arm64")
    return options


def listed() -> None:
    for name in patches.names():
        patch = patches.load(name)
        kernels = "; ".join(f"{series} {', '.join(arches)}" for series, arches in patch.kernels.items())
        print(f"patch     {name:20} {patch.head.splitlines()[0].rstrip('.')} ({kernels})")
    for name in configuration.fragments():
        if name not in ("base", *builder.ARCHES):
            print(f"fragment  {name}")


def patched(series: str, arch: str, wanted: list[str], target: Path) -> None:
    """Make the patched sources at `target`, which must not exist, as copies: they may be worked in."""
    chosen = patches.chosen(wanted, series, arch)
    if target.exists():
        raise Refused(f"{target} exists")
    sources.copy(sources.fetch(series)[0], target)
    patches.apply(target, chosen, series)


def changed(series: str, arch: str, wanted: list[str]) -> str:
    """The change as a unified diff, made in a copy of those files alone that the patches name."""
    chosen = patches.chosen(wanted, series, arch)
    tree = sources.fetch(series)[0]
    with tempfile.TemporaryDirectory() as scratch:
        for place in {edit.path for patch in chosen for edit in patch.edits} | {f for p in chosen for f in p.files}:
            if (tree / place).exists():
                edits.written(Path(scratch) / place, (tree / place).read_text())
        return patches.apply(Path(scratch), chosen, series)


def run(options: argparse.Namespace) -> None:
    if options.list:
        listed()
        return
    if options.arch not in builder.ARCHES:
        raise Refused(f"no architecture {options.arch}; there are {', '.join(builder.ARCHES)}")
    if options.tree:
        patched(options.series, options.arch, options.patch, options.tree.absolute())
        print(options.tree)
    elif options.diff:
        print(changed(options.series, options.arch, options.patch), end="")
    else:
        names = tuple(patch.name for patch in patches.chosen(options.patch, options.series, options.arch))
        more = {"jobs": options.jobs} if options.jobs else {}
        print(builder.build(builder.Request(options.series, options.arch, names, tuple(options.fragment), **more)))


def main(argv: list[str]) -> int:
    try:
        run(parsed(argv))
    except Refused as wrong:
        print(f"kernel/build: {wrong}", file=sys.stderr)
        return 2
    except Missing as missing:
        print(f"kernel/build: {missing}", file=sys.stderr)
        return 77
    except Failed as failed:
        print(f"kernel/build: {failed}", file=sys.stderr)
        return 3
    return 0


sys.exit(main(sys.argv[1:]))
