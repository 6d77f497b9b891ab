# SPDX-License-Identifier: GPL-2.0-only
"""kernel/build: makes a small bootable kernel, with and without our patches, or patches sources of
the user's.

    kernel/build SERIES ARCH [--patch NAME]… [--fragment NAME]… [--jobs N] [--sizes]
        builds; prints the folder. --sizes builds the same kernel without the patches, too, and
        prints what they add
    kernel/build SERIES ARCH --tree FOLDER [--patch NAME]…
        the patched sources alone, for a build of your own
    kernel/build SERIES ARCH --diff [--patch NAME]…
        the change as a unified diff, on standard output
    kernel/build SERIES ARCH --series NAME -o FOLDER [--signoff]
        a patch as mails for `git am` and `git send-email`, from the user that git is configured
        for. With --signoff that user signs them (Developer's Certificate of Origin)
    kernel/build --source SOURCE ARCH …
        any of these for sources of yours in place of Debian's: a git repository (its HEAD), a
        folder or a tarball
    kernel/build --list
        patches and fragments

SERIES is 6.1, 6.12 or 7.3, ARCH arm64, x86_64, i386 or riscv; `--patch all` takes every patch that
this kernel can have. The folder holds vmlinuz, patches.diff, log, and source/out with vmlinux,
.config and what a module is built against (KDIR=FOLDER/source/out). Debian's sources are fetched
once, by apt, into ${XDG_CACHE_HOME:-~/.cache}/linewright; what --tree makes shares no file with
them.

Exit code: 0 done; 2 the request was wrong; 3 a step failed (says where its log is); 77 something is
missing here (names the package)."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import builder, configuration, mails, patches, sizes, sources
from .errors import Failed, Missing, Refused
from .given import Given


def parsed(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kernel/build",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="see below",
    )
    parser.add_argument("words", nargs="*")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--series", metavar="NAME")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER")
    parser.add_argument("--signoff", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--patch", action="append", default=[], metavar="NAME")
    parser.add_argument("--fragment", action="append", default=[], metavar="NAME")
    parser.add_argument("--jobs", type=int, metavar="N")
    parser.add_argument("--tree", type=Path, metavar="FOLDER")
    parser.add_argument("--diff", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(argv)
    if not options.list and len(options.words) != (1 if options.source else 2):
        parser.error("SERIES and ARCH, as in: kernel/build 6.12 arm64; ARCH alone with --source")
    if bool(options.series) != bool(options.output):
        parser.error("--series NAME and -o FOLDER go together")
    if options.signoff and not options.series:
        parser.error("--signoff is of mails: --series NAME -o FOLDER")
    return options


def listed() -> None:
    for name in patches.names():
        patch = patches.load(name)
        kernels = "; ".join(
            f"{series} {', '.join(arches)}" for series, arches in patch.kernels.items()
        )
        print(f"patch     {name:20} {patch.head.splitlines()[0].rstrip('.')} ({kernels})")
    for name in configuration.fragments():
        if name not in ("base", *builder.ARCHES):
            print(f"fragment  {name}")


@dataclass(frozen=True)
class Origin:
    """Which kernel: a series of Debian's, or the user's sources with the series whose edits they
    take."""

    series: str
    source: Given | None

    def tree(self) -> Path:
        """All sources, to be read only."""
        return self.source.whole() if self.source else sources.fetch(self.series)[0]

    def files(self, chosen: list[patches.Patch], target: Path) -> None:
        """Copies of the files that patches name."""
        given = self.source or Given(sources.fetch(self.series)[0])
        given.take(target, patches.places(chosen))

    @property
    def version(self) -> str:
        return (self.source or Given(sources.fetch(self.series)[0])).version


def origin(options: argparse.Namespace, arch: str, wanted: list[str]) -> Origin:
    """What the request names."""
    if not options.source:
        return Origin(sources.known(options.words[0]), None)
    given = Given(options.source)
    return Origin(given.rules(wanted, arch), given)


def patched(kernel: Origin, chosen: list[patches.Patch], target: Path) -> None:
    """Make the patched sources at `target`, which must not exist, as copies: they may be worked
    in."""
    if target.exists():
        raise Refused(f"{target} exists")
    sources.copy(kernel.tree(), target)
    patches.apply(target, chosen, kernel.series)


def changed(kernel: Origin, chosen: list[patches.Patch]) -> str:
    """The change as a unified diff, made in a copy of those files alone that the patches name."""
    with tempfile.TemporaryDirectory() as scratch:
        kernel.files(chosen, Path(scratch))
        return patches.apply(Path(scratch), chosen, kernel.series)


def mailed(kernel: Origin, patch: patches.Patch, target: Path, *, signoff: bool) -> None:
    """Write a patch as mails into a folder that has none yet."""
    if target.exists() and any(target.glob("*.patch")):
        raise Refused(f"{target} holds mails already")
    with tempfile.TemporaryDirectory() as scratch:
        kernel.files([patch], Path(scratch))
        found = mails.series(patch, Path(scratch), kernel.series, kernel.version, signoff=signoff)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in found.items():
        (target / name).write_text(text)
        print(target / name)


def run(options: argparse.Namespace) -> None:
    if options.list:
        listed()
        return
    arch = options.words[-1]
    if arch not in builder.ARCHES:
        raise Refused(f"no architecture {arch}; there are {', '.join(builder.ARCHES)}")
    wanted = [options.series] if options.series else options.patch
    kernel = origin(options, arch, wanted)
    chosen = patches.chosen(wanted, kernel.series, arch)
    if options.series:
        mailed(kernel, chosen[0], options.output, signoff=options.signoff)
    elif options.tree:
        patched(kernel, chosen, options.tree.absolute())
        print(options.tree)
    elif options.diff:
        print(changed(kernel, chosen), end="")
    else:
        names = tuple(patch.name for patch in chosen)
        more = {"jobs": options.jobs} if options.jobs else {}
        request = builder.Request(
            kernel.series, arch, names, tuple(options.fragment), source=kernel.source, **more
        )
        print(builder.build(request))
        if options.sizes and names:
            print(sizes.added(request), end="")


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
