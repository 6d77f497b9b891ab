"""The same choice at compile time, in programs that are built already, and in the kernel."""

from __future__ import annotations

from linewright.analysis import build_choices
from linewright.analysis.machine_answers import MachineAnswers
from linewright.say.document import Topic
from linewright.say.sentence import sentence_as_written
from linewright.say.setting import point_text


def compile_time(m: MachineAnswers) -> Topic | None:
    """What the chosen setting corresponds to without the library's run-time policy."""
    if not m.choices:
        return None
    fixed, texts = build_choices.fixed_form(m), []
    flags = build_choices.FLAGS.get(fixed, [])
    if fixed:
        texts.append(_FIXED[fixed].format(" ".join(flags or build_choices.FLAGS["llsc"])))
    if build_choices.beyond_compilers(m.choices):
        texts.append(
            "no compiler option gives store forms or the prefetch: compilers do not emit STADD for "
            "an atomic add, nor PRFM; only the library's run-time setting does"
        )
    value = build_choices.value_for_built(m.choices)
    texts.append(
        f"programs that are built already: linewright run --atomics {value} -- PROGRAM"
        if value != "default"
        else "programs that are built already: nothing to switch; their outlined atomics return "
        "values, so a choice for operations without a value does not reach them"
    )
    ids = [i for c in m.choices for p in c.points for i in p.ids]
    return Topic(
        name="compile_time",
        title="Compile-time and already-built equivalents",
        lines=[sentence_as_written(text, ids) for text in texts],
        data={"flags": flags, "run_atomics": value},
    )


_FIXED = {
    "load": "the default, fixed at compile time: {} (load forms inline, no branch; the program "
    "then needs LSE)",
    "llsc": "LL/SC at compile time: {} (for operations not measured too)",
    "some_llsc": "no compiler option gives one class of operations LL/SC; {} gives it to all",
}
_OPTIONS = {
    "percpu_load": "a kernel whose per-CPU operations use load forms (merged upstream; older "
    "kernels use STADD there): {}",
    "prefetch": "the option that prefetches before LSE atomics (a compile-time option with a boot "
    "parameter, off by default, in kernels that have that patch): STADD alone costs more, behind "
    "the prefetch no more than LDADD",
}
"""Options of the kernel that exchange one form for another, with the figures."""


def kernel(m: MachineAnswers) -> Topic | None:
    """Options of the kernel that the same figures speak for; only a trial across boots can tell
    what they do."""
    found = build_choices.kernel_options(m) if m.forms_differ else []
    if not found:
        return None
    lines = []
    for one in found:
        text = f"worth trying: {_OPTIONS[one.option].format(point_text(one.evidence, m))}"
        against = f"; against it: {point_text(one.against, m)}" if one.against else ""
        ids = [*one.evidence.ids, *(one.against.ids if one.against else ())]
        lines.append(sentence_as_written(text + against, ids))
    text = "these cannot be switched from user space: `linewright trial --save FILE -- PROGRAM` on "
    text += "each boot, with a file for each, then `linewright compare FILE FILE`"
    lines.append(sentence_as_written(text, basis="rule"))
    return Topic(name="kernel", title="Kernel-side options", lines=lines, data=found)
