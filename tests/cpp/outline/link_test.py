# SPDX-License-Identifier: MIT
"""Links real programs with the outline archive and shared library in every way it is meant for, and
runs them emulated."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import unittest
from pathlib import Path

from emulated import (
    CPUS,
    LIBRARIES,
    NEW_CLANG,
    OLD_CLANG,
    TRIPLET,
    Emulated,
    is_prefetch,
    run,
    translated,
)

ARCHIVE = LIBRARIES / "liblinewright_outline.a"
SETTINGS = ("default", "prefetch", "llsc", "prefetch,cas=llsc")
SHARED = LIBRARIES / "liblinewright_outline.so"

# Whole: with bfd, a static program's libc would otherwise take the helpers that come to be wanted
# after the archive has been read from libgcc.
WHOLE = ["-Wl,--whole-archive", str(ARCHIVE), "-Wl,--no-whole-archive"]
PLAIN = [str(ARCHIVE)]
SO = [str(SHARED), f"-Wl,-rpath,{LIBRARIES}"]


def symbols(program: Path) -> set[str]:
    return {line.split()[-1] for line in run(f"{TRIPLET}-nm", program).stdout.splitlines()}


class Linking(Emulated):
    def check(
        self, program: Path, *, cpus: tuple[str, ...] = CPUS, settings: tuple[str, ...] = SETTINGS
    ) -> None:
        for cpu in cpus:
            for setting in settings:
                with self.subTest(cpu=cpu, setting=setting):
                    done = self.emulate(program, cpu=cpu, setting=setting)
                    self.assertEqual(done.stdout, "sums exact\n")
                    self.assertEqual(done.stderr, "")

    def assert_ours(self, program: Path) -> None:
        """All helpers in the program are the archive's: libgcc's would have brought its byte
        along."""
        names = symbols(program)
        self.assertIn("lw_outline_forms", names)
        self.assertNotIn("__aarch64_have_lse_atomics", names)

    def test_gcc_dynamic(self) -> None:
        program = self.link("gcc", "bfd", "sums.c", *PLAIN)
        self.assert_ours(program)
        self.check(program)

    def test_gcc_static(self) -> None:
        program = self.link("gcc", "bfd", "sums.c", "-static", *WHOLE)
        self.assert_ours(program)
        self.check(program)

    def test_gcc_lld_static_sections_collected(self) -> None:
        program = self.link("gcc", "lld", "sums.c", "-static", "-Wl,--gc-sections", *PLAIN)
        self.assert_ours(program)
        self.check(program, settings=("prefetch", "llsc"))

    def test_gcc_lld_position_independent(self) -> None:
        program = self.link("gcc", "lld", "sums.c", "-pie", "-fPIE", "-Wl,-z,now", *PLAIN)
        self.assert_ours(program)
        self.check(program, settings=("prefetch",))

    def test_gcc_sections_collected_keeps_what_is_used_only(self) -> None:
        program = self.link("gcc", "bfd", "sums.c", "-Wl,--gc-sections", *WHOLE)
        names = symbols(program)
        self.assertIn("__aarch64_ldadd8_acq_rel", names)
        self.assertNotIn("__aarch64_cas16_sync", names)
        self.check(program, settings=("prefetch",))

    def test_old_clang_dynamic(self) -> None:
        program = self.link(OLD_CLANG, "bfd", "sums.c", *PLAIN)
        self.assert_ours(program)
        self.check(program, settings=("prefetch", "llsc"))

    def test_new_clang_lld_static(self) -> None:
        program = self.link(NEW_CLANG, "lld", "sums.c", "-static", *PLAIN)
        self.assert_ours(program)
        self.check(program, settings=("prefetch", "llsc"))

    def test_shared_library_of_helpers(self) -> None:
        for compiler, linker in (("gcc", "bfd"), ("gcc", "lld"), (NEW_CLANG, "lld")):
            for binding in ("lazy", "now"):
                with self.subTest(compiler=compiler, linker=linker, binding=binding):
                    program = self.link(compiler, linker, "sums.c", f"-Wl,-z,{binding}", *SO)
                    wanted = run(f"{TRIPLET}-nm", "-D", program).stdout
                    self.assertIn(" U __aarch64_ldadd8_acq_rel", wanted)
                    self.assertNotIn("__aarch64_have_lse_atomics", symbols(program))
                    self.check(program, settings=("prefetch", "llsc"))

    def test_cpp_atomic_and_shared_ptr(self) -> None:
        for compiler, linker, flags in (
            ("gcc", "bfd", PLAIN),
            ("gcc", "bfd", ["-static", *WHOLE]),
            (OLD_CLANG, "lld", PLAIN),
            (NEW_CLANG, "lld", ["-static", *PLAIN]),
        ):
            with self.subTest(compiler=compiler, linker=linker, flags=flags):
                program = self.link(compiler, linker, "shared.cpp", *flags)
                self.assert_ours(program)
                self.check(program, settings=("prefetch", "llsc"))

    def test_link_time_optimisation(self) -> None:
        for compiler, linker in (("gcc", "bfd"), (NEW_CLANG, "lld")):
            with self.subTest(compiler=compiler):
                program = self.link(compiler, linker, "sums.c", "-flto", *PLAIN)
                self.assert_ours(program)
                self.check(program, settings=("prefetch", "llsc"))

    def test_in_a_shared_library(self) -> None:
        for linker in ("bfd", "lld"):
            with self.subTest(linker=linker):
                library = self.link(
                    "gcc",
                    linker,
                    "sums.c",
                    "-DSUMS_IN_A_LIBRARY",
                    "-shared",
                    "-fPIC",
                    "-Wl,-z,defs",
                    *PLAIN,
                    output="libsums.so",
                )
                self.assert_ours(library)
                exported = {
                    line.split()[-1]
                    for line in run(
                        f"{TRIPLET}-nm", "-D", "--defined-only", library
                    ).stdout.splitlines()
                }
                self.assertEqual(
                    {name for name in exported if name.startswith(("__aarch64", "lw_"))}, set()
                )
                program = self.link(
                    "gcc", linker, "calls_sums.c", str(library), f"-Wl,-rpath,{self.dir}"
                )
                self.check(program, settings=("prefetch", "llsc"))

    def test_a_helper_of_the_program_wins(self) -> None:
        for linker, flags in (("bfd", PLAIN), ("lld", PLAIN), ("bfd", ["-static", *PLAIN])):
            with self.subTest(linker=linker, flags=flags):
                program = self.link("gcc", linker, "own_helper.c", *flags)
                self.assertIn("lw_outline_forms", symbols(program))
                self.check(program, settings=("prefetch",))

    def test_landing_pads_stay(self) -> None:
        """Linked for BTI, everything of ours included: the linker finds no object without landing
        pads."""
        out = self.dir / "libpads.so"
        done = run(
            f"{TRIPLET}-gcc", "-shared", "-nostartfiles", "-o", out, "-Wl,-z,force-bti", *WHOLE
        )
        self.assertEqual(done.stderr, "")
        self.assertRegex(run(f"{TRIPLET}-readelf", "-n", out).stdout, r"AArch64 feature: BTI, PAC")

    def test_the_chosen_form_runs(self) -> None:
        """The emulator's listing of what it translated: the prefetch is there when asked for, and
        only then."""
        program = self.link("gcc", "bfd", "sums.c", "-static", *WHOLE)
        for setting, prefetches, adds in (
            ("default", False, True),
            ("prefetch", True, True),
            ("llsc", False, False),
        ):
            with self.subTest(setting=setting):
                log = self.dir / "listing"
                self.emulate(program, setting=setting, flags=("-d", "in_asm", "-D", log))
                codes = {code for _, code in translated(log)}
                self.assertEqual(any(map(is_prefetch, codes)), prefetches)
                self.assertEqual(0xF8E00020 in codes, adds)  # LDADDAL X0, X0, [X1]

    def test_right_before_any_constructor(self) -> None:
        """In the pre-initialisation array, which only programs have: LL/SC then, the chosen form
        from then on."""
        for flags in ([], ["-static"]):
            program = self.link("gcc", "bfd", "preinit.c", *PLAIN, *flags)
            for cpu, setting, form in (
                ("max", "prefetch", 3),
                ("max", "default", 1),
                ("max", "llsc", 0),
                ("cortex-a57", "default", 0),
                ("cortex-a57", "prefetch", 2),
            ):
                with self.subTest(flags=flags, cpu=cpu, setting=setting):
                    done = self.emulate(program, cpu=cpu, setting=setting)
                    self.assertEqual(done.stdout, f"sum 2000, forms 0 then {form}\n")

    def test_instructions_by_order(self) -> None:
        """Each helper's listing: landing pad, suffixes of both forms, the barrier of _sync, the
        line that is prefetched."""
        listing = run(f"{TRIPLET}-objdump", "-d", "--no-show-raw-insn", SHARED).stdout
        bodies = re.findall(
            r"^[0-9a-f]+ <__aarch64_(cas|swp|ld\w+?)(\d+)_(\w+)>:\n(.*?)(?=^\n|\Z)",
            listing,
            re.M | re.S,
        )
        self.assertEqual(len(bodies), 125)
        for op, size, order, text in bodies:
            with self.subTest(helper=f"{op}{size}_{order}"):
                code = [
                    re.sub(r"\s+", " ", line.split("\t", 1)[1])
                    for line in text.splitlines()
                    if "\t" in line
                ]
                narrow = {"1": "b", "2": "h"}.get(size, "")
                acquire, release = (
                    order in ("acq", "acq_rel", "sync"),
                    order in ("rel", "acq_rel") or (order == "sync" and op != "swp"),
                )
                self.assertEqual(code[0], "bti c")
                lse = f"{op}{'p' if size == '16' else ''}{'a' * acquire}{'l' * release}{narrow}"
                self.assertEqual(
                    [after for c, after in itertools.pairwise(code) if c.split()[0] == lse],
                    ["ret"],
                    code,
                )
                exclusive = {c.split()[0] for c in code if re.match(r"(ld|st)[al]?x", c)}
                pair = "xp" if size == "16" else f"xr{narrow}"
                self.assertEqual(
                    exclusive,
                    {f"ld{'a' * (acquire and order != 'sync')}{pair}", f"st{'l' * release}{pair}"},
                )
                self.assertEqual(code.count("dmb ish"), order == "sync")
                if order == "sync":
                    self.assertEqual(code[code.index("dmb ish") + 1], "ret")
                line = "x1" if op != "cas" else "x4" if size == "16" else "x2"
                self.assertEqual(
                    [c for c in code if c.startswith("prfm")], [f"prfm pstl1strm, [{line}]"]
                )

    def test_a_wrong_setting_is_one_line_and_the_default(self) -> None:
        program = self.link("gcc", "bfd", "own_helper.c", *PLAIN)
        done = self.emulate(program, setting="near")
        self.assertEqual(done.stdout, "sums exact\n")
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertRegex(done.stderr, r"^linewright: LINEWRIGHT_ATOMICS: 'near' .*allowed")

    def test_the_helpers_are_libgccs(self) -> None:
        def helpers(archive: Path | str) -> set[str]:
            listed = subprocess.run(
                [f"{TRIPLET}-nm", "--defined-only", str(archive)], capture_output=True, text=True
            ).stdout
            return {
                f[2]
                for f in (line.split() for line in listed.splitlines())
                if len(f) == 3 and f[1] == "T" and f[2].startswith("__aarch64_")
            }

        libgcc = helpers(run(f"{TRIPLET}-gcc", "-print-libgcc-file-name").stdout.strip())
        ours = helpers(ARCHIVE)
        atomics = {
            n for n in libgcc if n.startswith(("__aarch64_cas", "__aarch64_swp", "__aarch64_ld"))
        }
        self.assertEqual(len(ours), 125)
        self.assertEqual(ours, atomics)
        listed = run(f"{TRIPLET}-nm", "-D", "--defined-only", SHARED).stdout
        self.assertEqual({line.split()[-1] for line in listed.splitlines()}, ours)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
