"""The same choice at compile time, in programs that are built already, and in the kernel."""

from __future__ import annotations

from linewright import policy
from linewright.analysis import setting_choice
from linewright.analysis.machine_answers import MachineAnswers
from linewright.say.document import Topic
from linewright.say.setting import clearest, point_text


def compile_time(m: MachineAnswers) -> Topic | None:
    """What the chosen setting corresponds to without the library's run-time policy."""
    if not m.choices:
        return None
    chosen = {c.operations: c.choice for c in m.choices}
    changed = {c.operations: c.choice for c in m.choices if c.choice != c.default}
    lines, flags = [], []
    if not changed and m.default == "load":
        flags = ["-DLW_NO_POLICY", "-march=armv8-a+lse"]
        lines.append(
            f"the default, fixed at compile time: {' '.join(flags)} (load forms inline, no branch;"
            " the program then needs LSE)"
        )
    elif set(chosen.values()) == {"llsc"}:
        flags = ["-DLW_NO_POLICY", "-march=armv8-a", "-mno-outline-atomics"]
        lines.append(f"LL/SC at compile time: {' '.join(flags)} (for operations not measured too)")
    elif "llsc" in chosen.values():
        lines.append(
            "no compiler option gives one class of operations LL/SC; -DLW_NO_POLICY -march=armv8-a"
            " -mno-outline-atomics gives it to all"
        )
    if any("store" in c or "prefetch" in c for c in changed.values()):
        lines.append(
            "no compiler option gives store forms or the prefetch: compilers do not emit STADD for "
            "an atomic add, nor PRFM; only the library's run-time setting does"
        )
    reaching = policy.check(
        setting_choice.setting_of(c for c in m.choices if c.operations != "void"), "advice"
    )
    if reaching != "default":
        lines.append(
            f"programs that are built already: linewright run --atomics {reaching} -- PROGRAM"
        )
    else:
        lines.append(
            "programs that are built already: nothing to switch; their outlined atomics return "
            "values, so a choice for operations without a value does not reach them"
        )
    return Topic(
        name="compile_time",
        title="Compile-time and already-built equivalents",
        lines=lines,
        data={"flags": flags, "run_atomics": reaching},
    )


IDEAS = {
    "prefetch": "the option that prefetches before LSE atomics (a compile-time option with a boot "
    "parameter, off by default, in kernels that have that patch)",
    "percpu_load": "a kernel whose per-CPU operations use load forms (merged upstream; older "
    "kernels use STADD there)",
}
"""Options of the kernel that exchange one form for another."""


def kernel(m: MachineAnswers) -> Topic | None:
    """Options of the kernel that the same figures speak for; only a trial across boots can tell
    what they do.

    Each needs its own comparison with the store form: that form is shown to be slower than the
    default (LDADD) here."""
    if not m.forms_differ:
        return None
    points = [p for c in m.choices if c.operations == "void" for p in c.points]
    store = [p for p in points if p.choice == "store" and not p.situation.contended]
    worst = clearest(store, cheaper=False)
    lines, data = [], []
    if worst and not any(p.judgement.cheaper for p in store):
        data.append({"option": "percpu_load", "evidence": worst})
        lines.append(f"worth trying: {IDEAS['percpu_load']}: {point_text(worst, m)}")
    prefetched = [p for p in points if p.choice == "store,prefetch" and not p.situation.contended]
    if worst and prefetched and all(p.not_worse for p in prefetched):
        data.append({"option": "prefetch", "evidence": worst})
        lines.append(
            f"worth trying: {IDEAS['prefetch']}: STADD alone costs more, behind the prefetch no "
            "more than LDADD"
        )
    if lines:
        lines.append(
            "these cannot be switched from user space: `linewright trial --save` on each"
            " boot, then `linewright compare`"
        )
    return (
        Topic(name="kernel", title="Kernel-side options", lines=lines, data=data) if lines else None
    )
