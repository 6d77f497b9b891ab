# SPDX-License-Identifier: MIT
"""The auditing library under emulation: what it finds against nm, what it changes against the file,
what it must not touch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from emulated import (
    AUDIT,
    NEW_CLANG,
    OLD_CLANG,
    PROGRAMS,
    SYSROOT,
    TRIPLET,
    Emulated,
    Object,
    audited,
    helper_symbols,
    is_adrp,
    is_prefetch,
    run,
    translated,
)

TELL = str(PROGRAMS / "tell.c")
WORDS_PER_HELPER = 3
SETTINGS = (
    "default",
    "store",
    "load",
    "store,prefetch",
    "prefetch",
    "llsc",
    "llsc,prefetch",
    "cas=llsc",
    "prefetch,cas=llsc",
    "fetch=prefetch",
)


def names(entry: Object) -> list[str]:
    return sorted(name for name, _ in entry.helpers.values())


class Auditing(Emulated):
    def said(
        self, program: Path, *args: str | Path, setting: str = "prefetch", **options
    ) -> dict[str, Object]:
        return audited(
            self.emulate(
                program, *args, setting=setting, verbose=True, audit=AUDIT, **options
            ).stderr
        )

    def assert_agrees_with_nm(self, entry: Object, unstripped: Path) -> None:
        """The same helpers, by name and place; the name's address may be that of a landing pad
        before."""
        symbols = helper_symbols(unstripped)
        self.assertEqual(
            {a - 4 if a - 4 in symbols else a: n for a, (n, _) in entry.helpers.items()}, symbols
        )
        self.assertEqual(entry.found, len(symbols))
        self.assertEqual(entry.changed, len(symbols))

    def test_stripped_programs_agree_with_nm_of_their_twins(self) -> None:
        for compiler, linker, source, flags in (
            ("gcc", "bfd", "sums.c", []),
            ("gcc", "bfd", "sums.c", ["-no-pie"]),
            ("gcc", "lld", "sums.c", ["-mbranch-protection=standard"]),
            (OLD_CLANG, "bfd", "sums.c", ["-Wl,-z,now"]),
            (NEW_CLANG, "lld", "sums.c", ["-no-pie", "-Wl,-z,separate-code"]),
            ("gcc", "bfd", "shared.cpp", []),
            (NEW_CLANG, "lld", "shared.cpp", []),
        ):
            with self.subTest(compiler=compiler, linker=linker, source=source, flags=flags):
                program = self.link(compiler, linker, source, *flags)
                done = self.emulate(
                    self.stripped(program), setting="prefetch", verbose=True, audit=AUDIT
                )
                self.assertEqual(done.stdout, "sums exact\n")
                entry = audited(done.stderr)["the program"]
                self.assertGreater(entry.found, 1)
                self.assert_agrees_with_nm(entry, program)
                self.assertEqual(
                    {outcome for _, outcome in entry.helpers.values()}, {"prefetch and LSE"}
                )

    def test_every_helper_is_known(self) -> None:
        """All 125 of libgcc in one stripped library."""
        libgcc = run(f"{TRIPLET}-gcc", "-print-libgcc-file-name").stdout.strip()
        everything = self.dir / "everything.c"
        listed = subprocess.run(
            [f"{TRIPLET}-nm", "--defined-only", libgcc], capture_output=True, text=True
        ).stdout
        wanted = sorted(set(re.findall(r" T (__aarch64_(?:cas|swp|ld)\w+)", listed)))
        self.assertEqual(len(wanted), 125)
        everything.write_text(
            "\n".join(f"void {n}(void);" for n in wanted)
            + "\nvoid (*const all[])(void) = {"
            + ", ".join(wanted)
            + "};\n"
        )
        program = self.link("gcc", "bfd", "opens_sums.c")
        for more in ([], [PROGRAMS / "writes_back.S"]):
            with self.subTest(more=more):
                library = self.dir / f"libeverything{len(more)}.so"
                run(f"{TRIPLET}-gcc", "-shared", "-fPIC", "-O2", "-o", library, everything, *more)
                stripped = self.stripped(library)
                entry = self.said(program, stripped)[str(stripped)]
                self.assert_agrees_with_nm(entry, library)
                self.assertEqual(names(entry), wanted)

    def test_system_libraries(self) -> None:
        """libc, libstdc++ and the dynamic linker have no symbols left; their helpers are counted in
        their disassembly."""
        done = self.emulate(
            self.link("gcc", "bfd", "shared.cpp"), setting="prefetch", verbose=True, audit=AUDIT
        )
        self.assertEqual(done.stdout, "sums exact\n")
        objects = {Path(name).name: entry for name, entry in audited(done.stderr).items()}
        for name in ("libc.so.6", "libstdc++.so.6", "ld-linux-aarch64.so.1"):
            with self.subTest(name):
                listing = run(
                    f"{TRIPLET}-objdump", "-d", "--no-show-raw-insn", SYSROOT / "lib" / name
                ).stdout
                in_a_row = re.findall(
                    r"adrp\tx16, .*\n.*\tldrb\tw16, \[x16.*\n.*\tcbz\tw16, .*\n"
                    r".*\t(?:cas|swp|ld(?:add|clr|set|eor))\w*\t.*\n.*\tret\n",
                    listing,
                )
                self.assertGreater(len(in_a_row), 0)
                self.assertEqual(
                    (objects[name].found, objects[name].changed), (len(in_a_row), len(in_a_row))
                )
        self.assertEqual(objects["libm.so.6"].found, 0)

    def program_with_libraries(self, count: int) -> Path:
        """A program that does nothing and needs `count` libraries, each with the helpers of one
        source file of atomics."""
        one = self.dir / "lib0.so"
        if not one.exists():
            source = self.dir / "library.c"
            source.write_text("int add(int *p, int v) { return __atomic_fetch_add(p, v, 0); }")
            run(f"{TRIPLET}-gcc", "-shared", "-fPIC", "-O2", "-moutline-atomics", "-o", one, source)
        libraries = [one.with_name(f"lib{i}.so") for i in range(count)]
        for library in libraries:
            if not library.exists():
                shutil.copy(one, library)
        main, program = self.dir / "main.c", self.dir / f"with{count}"
        main.write_text("int main(void) { return 0; }")
        run(f"{TRIPLET}-gcc", "-o", program, main, "-Wl,--no-as-needed", *libraries)
        return program

    def test_instructions_of_the_start_per_object(self) -> None:
        """What the emulator takes says nothing about a real CPU; the number of instructions is the
        same there."""
        if "-plugin" not in run("qemu-aarch64", "-h").stdout:
            self.skipTest("this emulator was built without plugins, as Ubuntu's is")
        plugin = self.dir / "count.so"
        run(
            "gcc",
            "-shared",
            "-fPIC",
            "-O2",
            "-o",
            plugin,
            Path(__file__).with_name("count_instructions.c"),
        )
        extra = {}
        for count in (50, 100, 200, 400):
            program, taken = self.program_with_libraries(count), {}
            for audit in (None, AUDIT):
                out = self.dir / "instructions"
                flags = ("-plugin", f"{plugin},to={out}")
                self.emulate(
                    program, setting="prefetch" if audit else None, audit=audit, flags=flags
                )
                taken[audit] = int(out.read_text())
            extra[count] = taken[AUDIT] - taken[None]
        print(
            "instructions that the audit adds to the start, by libraries:", extra, file=sys.stderr
        )
        first = (extra[100] - extra[50]) / 50
        self.assertGreater(first, 100)
        for less, more in ((100, 200), (200, 400)):
            each = (extra[more] - extra[less]) / (more - less)
            self.assertLess(each, 1.1 * first, f"{extra}: the later objects cost more")

    def test_the_start_takes_the_same_for_each_object(self) -> None:
        """System calls of the start, per library: the mappings used to be read again, and grew,
        with every object."""
        calls = {}
        for count in (10, 40, 70):
            program = self.program_with_libraries(count)
            done = self.emulate(program, setting="prefetch", audit=AUDIT, flags=("-strace",))
            calls[count] = len(
                re.findall(r"^\d+ (?:p?read(?:64)?|openat|close)\(", done.stderr, re.M)
            )
        grown = (calls[40] - calls[10], calls[70] - calls[40])
        self.assertEqual(grown[0], grown[1], f"{calls}: the later objects cost more")

    def test_lines_name_the_process(self) -> None:
        program = self.link("gcc", "bfd", "sums.c")
        done = self.emulate(program, setting="prefetch", verbose=True, audit=AUDIT)
        said = [line for line in done.stderr.splitlines() if line.startswith("linewright: audit")]
        self.assertTrue(said)
        numbers = {re.match(r"linewright: audit\[(\d+) program\]: ", line)[1] for line in said}
        self.assertEqual(len(numbers), 1)

    def test_execute_only_text_is_explained(self) -> None:
        """A text segment that may not be read cannot be searched: the helpers in it stay, and the
        line says why."""
        program = self.link(
            NEW_CLANG, "lld", "sums.c", "-Wl,--execute-only", "-Wl,-z,separate-code"
        )
        done = self.emulate(program, setting="prefetch", verbose=True, audit=AUDIT)
        self.assertEqual(done.stdout, "sums exact\n")
        entry = audited(done.stderr)["the program"]
        self.assertEqual(
            (entry.found, entry.note), (0, "its text is execute-only, so it cannot be searched")
        )

    def test_every_setting_gives_exact_sums(self) -> None:
        programs = [
            self.stripped(self.link("gcc", "bfd", "sums.c")),
            self.link(NEW_CLANG, "lld", "shared.cpp", output="cpp"),
        ]
        for program in programs:
            for setting in SETTINGS:
                with self.subTest(program=program.name, setting=setting):
                    self.assertEqual(
                        self.emulate(program, setting=setting, audit=AUDIT).stdout, "sums exact\n"
                    )
            with self.subTest(program=program.name, cpu="cortex-a57"):
                self.assertEqual(
                    self.emulate(program, setting="prefetch", cpu="cortex-a57", audit=AUDIT).stdout,
                    "sums exact\n",
                )

    def test_what_changes_and_what_does_not(self) -> None:
        """Words of text against the file, and the byte, as main sees them."""
        program = self.link("gcc", "bfd", "sums.c", TELL, "-DTELL")
        count = len(helper_symbols(program))
        compare_and_swaps = sum("_cas" in n for n in helper_symbols(program).values())
        self.assertGreater(compare_and_swaps, 0)
        edited = WORDS_PER_HELPER * count
        for setting, words, byte in (
            ("default", 0, 1),
            ("store", 0, 1),
            ("load", 0, 1),
            ("prefetch", edited, 1),
            ("store,prefetch", edited, 1),
            ("llsc", 0, 0),
            ("llsc,prefetch", edited, 1),  # every helper goes its way whatever the byte says
            ("prefetch,cas=llsc", edited, 1),
            ("cas=llsc", edited - WORDS_PER_HELPER * compare_and_swaps, 0),
            ("cas=prefetch", WORDS_PER_HELPER * compare_and_swaps, 1),
        ):
            with self.subTest(setting=setting):
                done = self.emulate(program, setting=setting, audit=AUDIT)
                self.assertEqual(
                    done.stdout, f"words changed {words}, lse byte {byte}\nsums exact\n"
                )
        for setting in ("prefetch", "llsc"):
            with self.subTest(cpu="cortex-a57", setting=setting):
                done = self.emulate(
                    program, setting=setting, audit=AUDIT, cpu="cortex-a57", verbose=True
                )
                self.assertEqual(done.stdout, "words changed 0, lse byte 0\nsums exact\n")
                self.assertRegex(
                    done.stderr, r"^linewright: audit\[\d+ \S+\]: this CPU has no LSE atomics.*\n$"
                )

    def test_the_asked_form_runs(self) -> None:
        """The emulator's listing of what it translated in the program's own helpers."""
        program = self.link("gcc", "bfd", "sums.c", "-no-pie", "-static-libgcc")
        address = next(
            a for a, n in helper_symbols(program).items() if n == "__aarch64_ldadd8_acq_rel"
        )
        for setting, is_first in (("default", is_adrp), ("prefetch", is_prefetch)):
            with self.subTest(setting=setting):
                log = self.dir / "listing"
                self.emulate(
                    program, setting=setting, audit=AUDIT, flags=("-d", "in_asm", "-D", log)
                )
                ran = {code for at, code in translated(log) if at == address + 4}
                self.assertEqual({is_first(code) for code in ran}, {True})

    def test_lookalikes_stay(self) -> None:
        flags = [str(PROGRAMS / "lookalikes.S"), TELL, "-mno-outline-atomics"]
        for extra, found in (([], 0), (["-DONE_REAL"], 1)):
            with self.subTest(found=found):
                program = self.link("gcc", "bfd", "lookalikes_main.c", *flags, *extra)
                for setting, words in (
                    ("prefetch", WORDS_PER_HELPER * found),
                    ("llsc", 0),
                    ("llsc,prefetch", WORDS_PER_HELPER * found),
                ):
                    done = self.emulate(program, setting=setting, verbose=True, audit=AUDIT)
                    self.assertEqual(done.stdout, f"words changed {words}, lse byte -1\n")
                    self.assertEqual(audited(done.stderr)["the program"].found, found)

    def test_none_to_find(self) -> None:
        program = self.link("gcc", "bfd", "sums.c", "-mno-outline-atomics", "-DTELL", TELL)
        done = self.emulate(program, setting="prefetch", verbose=True, audit=AUDIT)
        self.assertEqual(done.stdout, "words changed 0, lse byte -1\nsums exact\n")
        self.assertEqual(audited(done.stderr)["the program"], Object())

    def test_linewrights_own_helpers_govern_themselves(self) -> None:
        archive = AUDIT.parent / "liblinewright_outline.a"
        program = self.link("gcc", "bfd", "sums.c", str(archive))
        self.assertEqual(self.said(program)["the program"].found, 0)

    def test_static_programs_run_unchanged(self) -> None:
        program = self.link("gcc", "bfd", "sums.c", "-static", "-DTELL", TELL)
        done = self.emulate(program, setting="prefetch", verbose=True, audit=AUDIT)
        self.assertEqual(
            (done.stdout, done.stderr), ("words changed 0, lse byte 1\nsums exact\n", "")
        )

    def library(self, source: str, output: str, *flags: str) -> Path:
        return self.link(
            "gcc",
            "bfd",
            source,
            "-DSUMS_IN_A_LIBRARY",
            "-shared",
            "-fPIC",
            TELL,
            *flags,
            output=output,
        )

    def test_libraries_opened_while_threads_run(self) -> None:
        program = self.link("gcc", "bfd", "opens_sums.c")
        for flags in ([], ["-Wl,-z,now,-z,relro"], ["-Wl,-z,norelro"]):
            library = self.library("sums.c", "libsums.so", *flags)
            count = len(helper_symbols(library))
            for setting, words, byte in (
                ("default", 0, 1),
                ("prefetch", WORDS_PER_HELPER * count, 1),
                ("llsc", 0, 0),
            ):
                with self.subTest(setting=setting, flags=flags):
                    done = self.emulate(
                        program, library, setting=setting, verbose=True, audit=AUDIT
                    )
                    self.assertEqual(
                        done.stdout, f"words changed {words}, lse byte {byte}\nsums exact\n"
                    )
                    if setting != "default":
                        self.assert_agrees_with_nm(audited(done.stderr)[str(library)], library)

    def test_opened_closed_and_opened_again(self) -> None:
        """More often than there are places for objects whose constructors are still to run; some
        never run theirs."""
        library = self.library("constructors.c", "libsums.so")
        broken = self.library("sums.c", "libbroken.so")
        needs = self.dir / "libneeds.so"
        run(
            f"{TRIPLET}-gcc",
            "-shared",
            "-fPIC",
            "-O2",
            "-DSUMS_IN_A_LIBRARY",
            "-Wl,--no-as-needed",
            PROGRAMS / "sums.c",
            "-o",
            needs,
            broken,
        )
        broken.unlink()
        program = self.link("gcc", "bfd", "opens_sums.c")
        for setting, byte in (("llsc", 0), ("prefetch", 1)):
            with self.subTest(setting=setting):
                done = self.emulate(
                    program, "-r", "50", library, needs, setting=setting, audit=AUDIT
                )
                words = (
                    WORDS_PER_HELPER * len(helper_symbols(library)) if setting == "prefetch" else 0
                )
                once = f"words changed {words}, lse byte {byte}\nsums exact\ncannot be opened\n"
                self.assertEqual(done.stdout, once * 50)

    def test_many_opened_at_once(self) -> None:
        """One dlopen that brings more objects than a few tables would hold; one that nothing uses
        is left behind."""
        one = self.library("sums.c", "libone.so")
        others = [shutil.copy(one, self.dir / f"lib{i}.so") for i in range(40)]
        needs = [word for path in others for word in ("-Wl,--no-as-needed", path)]
        whole = self.library("sums.c", "libwhole.so", *map(str, needs), f"-Wl,-rpath,{self.dir}")
        said = self.said(self.link("gcc", "bfd", "opens_sums.c"), whole, setting="llsc")
        self.assertEqual(
            [said[str(path)].changed for path in others], [len(helper_symbols(one))] * len(others)
        )

    def test_constructors_that_use_atomics_and_start_threads(self) -> None:
        program = self.link("gcc", "bfd", "constructors.c", TELL)
        library = self.library("constructors.c", "libsums.so")
        linked = self.link(
            "gcc", "bfd", "calls_sums.c", str(library), f"-Wl,-rpath,{self.dir}", output="linked"
        )
        for setting in SETTINGS:
            with self.subTest(setting=setting):
                done = self.emulate(program, setting=setting, audit=AUDIT)
                self.assertRegex(
                    done.stdout, rf"lse byte {0 if setting == 'llsc' else 1}\nsums exact\n$"
                )
                self.assertEqual(
                    self.emulate(linked, setting=setting, audit=AUDIT).stdout, "sums exact\n"
                )

    def test_secure_mode(self) -> None:
        """As under set-user-id: the dynamic linker refuses the library, and the setting is not
        obeyed."""
        self.dir.chmod(0o755)
        qemu, tells = (
            shutil.copy(shutil.which(name) or name, self.dir / name)
            for name in ("qemu-aarch64", "id")
        )
        try:
            for copy in (qemu, tells):
                shutil.chown(copy, "nobody")
                copy.chmod(0o4755)
        except (PermissionError, LookupError) as refused:
            self.skipTest(f"no file of another user can be made here: {refused}")
        if run(tells, "-u").stdout == f"{os.getuid()}\n":
            self.skipTest("set-user-id has no effect here")
        program = self.link("gcc", "bfd", "sums.c", TELL, "-DTELL")
        done = self.emulate(
            program, setting="prefetch", verbose=True, audit=AUDIT, emulator=str(qemu)
        )
        self.assertEqual(done.stdout, "words changed 0, lse byte 1\nsums exact\n")
        self.assertNotIn("linewright:", done.stderr)

    def test_memory_file_that_cannot_be_written(self) -> None:
        # A read-only view laid over /proc for this one program. Remounting /proc itself would reach
        # the whole machine.
        view = 'mount --bind /proc /proc && mount -o remount,bind,ro /proc && exec "$@"'
        read_only = ("unshare", "--mount", "--propagation", "private", "sh", "-c", view, "sh")
        if subprocess.run([*read_only, "true"], capture_output=True).returncode != 0:
            self.skipTest("this machine allows no private mounts")
        program = self.link("gcc", "bfd", "sums.c", TELL, "-DTELL")
        done = self.emulate(program, setting="prefetch", verbose=True, audit=AUDIT, wrap=read_only)
        self.assertEqual(done.stdout, "words changed 0, lse byte 1\nsums exact\n")
        entry = audited(done.stderr)["the program"]
        self.assertEqual(
            (entry.changed, entry.note), (0, "/proc/self/mem cannot be opened for writing")
        )
        self.assertEqual(entry.found, len(helper_symbols(program)))
        done = self.emulate(program, setting="llsc", verbose=True, audit=AUDIT, wrap=read_only)
        self.assertEqual(
            done.stdout, "words changed 0, lse byte 0\nsums exact\n"
        )  # LL/SC needs no memory file
        self.assertEqual(audited(done.stderr)["the program"].changed, len(helper_symbols(program)))

    def test_system_calls_refused(self) -> None:
        """A filter inherited at exec that refuses what editing needs: the program runs unchanged,
        or without the barrier."""
        program = self.link("gcc", "bfd", "sums.c", TELL, "-DTELL")
        count = len(helper_symbols(program))
        refuse = (sys.executable, str(Path(__file__).parent / "refuse.py"))
        for call, words in (("pwrite64", 0), ("membarrier", WORDS_PER_HELPER * count)):
            with self.subTest(call=call):
                done = self.emulate(
                    program, setting="prefetch", verbose=True, audit=AUDIT, wrap=(*refuse, call)
                )
                self.assertEqual(done.stdout, f"words changed {words}, lse byte 1\nsums exact\n")
                self.assertEqual(
                    audited(done.stderr)["the program"].note,
                    "" if words else "its memory file refused a write",
                )

    def test_nothing_to_do_is_said(self) -> None:
        program = self.link("gcc", "bfd", "sums.c")
        for setting in ("store", "load", "void=prefetch"):
            done = self.emulate(program, setting=setting, verbose=True, audit=AUDIT)
            self.assertRegex(
                done.stderr,
                rf"^linewright: audit\[\d+ \S+\]: '{setting}' leaves outlined helpers as they "
                rf"are.*\n$",
            )
            self.assertEqual(self.emulate(program, setting=setting, audit=AUDIT).stderr, "")
        done = self.emulate(program, setting="near", audit=AUDIT)
        self.assertRegex(
            done.stderr,
            r"^linewright: LINEWRIGHT_ATOMICS: 'near' is unknown; allowed: .*; the program runs "
            r"unchanged\n$",
        )
        self.assertEqual(done.stdout, "sums exact\n")
        self.assertEqual(self.emulate(program, setting="prefetch", audit=AUDIT).stderr, "")


if __name__ == "__main__":
    unittest.main()
