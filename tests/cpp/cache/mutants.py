# SPDX-License-Identifier: MIT
"""Writes the cache library, or the example log, with one deliberate mistake in it; the model's
tests must fail on every one.

usage: mutants.py --list library|log | mutants.py NAME SOURCE TARGET A mutant whose original text is
not in the source exactly once is an error: it must move with the code."""

import sys
from pathlib import Path

LIBRARY = {
    "list_without_wait": (
        "    issue(insn, held, line);\n    wait_for(loads_too);\n",
        "    issue(insn, held, line);\n    (void)loads_too;\n",
    ),
    "list_waits_before_it_issues": (
        "    issue(insn, held, line);\n    wait_for(loads_too);\n",
        "    wait_for(loads_too);\n    issue(insn, held, line);\n",
    ),
    "range_without_wait": (
        "    if (wait)\n        wait_for(a.full);\n",
        "",
    ),
    "batch_without_wait": (
        "batch->last}, lw_word_line(batch->word));\n        wait_for(a.full);\n",
        "batch->last}, lw_word_line(batch->word));\n",
    ),
    "batch_forgets_the_last_range": (
        "        issue_ordered(a.insn, (struct lines){batch->first, batch->last}, "
        "lw_word_line(batch->word));\n       "
        " wait_for",
        "        wait_for",
    ),
    "head_missed": (
        "for (uintptr_t at = r.first;; at += line)",
        "for (uintptr_t at = r.first == r.last ? r.first : r.first + line;; at += line)",
    ),
    "tail_missed": (
        "        issue_one(insn, (const void *)at);\n        if (at == r.last)\n",
        "        issue_one(insn, (const void *)at);\n        if (at == r.last || at + line == "
        "r.last)\n",
    ),
    "one_line_too_many": ("(p + (n - 1)) & ~(line - 1)};", "(p + n) & ~(line - 1)};"),
    "range_past_the_end_accepted": (
        "return (n > SIZE_MAX / 2) | (p + n - (n != 0) < p);",
        "return n > SIZE_MAX / 2 && p;",
    ),
    "top_byte_refused": ("(p + n - (n != 0) < p)", "(p + n < p)"),
    "list_begins_with_an_impossible_entry": (
        "if (at == end || is_impossible(at))",
        "if (at == end)",
    ),
    "list_goes_on_after_an_impossible_entry": (
        "while (++at < end && !is_impossible(at))",
        "while (++at < end)",
    ),
    "impossible_entry_not_told": ("return done == n ? 0 : -EINVAL;", "return done ? 0 : -EINVAL;"),
    "list_not_checked_where_nothing_is_done": (
        "        if (is_impossible(&list[i]))\n            return -EINVAL;\n",
        "        (void)i;\n",
    ),
    "empty_piece_touches_a_line": (
        "        if (!at->iov_len)\n            continue;\n        next = "
        "lines_of((uintptr_t)at->iov_base,"
        " at->iov_len, line);",
        "        next = lines_of((uintptr_t)at->iov_base, at->iov_len ? at->iov_len : 1, line);",
    ),
    "merge_around_the_end_of_the_address_space": (" & (b.first != 0))", ")"),
    "merge_bridges_a_gap": ("(distance == span + line)", "(distance - span <= 2 * line)"),
    "merge_loses_the_new_end": ("    if (b.last > a->last)\n        a->last = b.last;\n", ""),
    "no_merge": (
        "!((distance <= span) | ((distance == span + line) & (b.first != 0)))",
        "b.first >= a->first",
    ),
    "clean_only_when_the_device_reads": (
        "    return lw_cache_list(list, n, LW_CACHE_CLEAN);",
        "    return direction == LW_DMA_FROM_DEVICE ? 0 : lw_cache_list(list, n, LW_CACHE_CLEAN);",
    ),
    "bidirectional_not_taken_back": (
        "    if (direction == LW_DMA_TO_DEVICE)\n        return lw",
        "    if (direction != LW_DMA_FROM_DEVICE)\n        return lw",
    ),
    "invalidate_discards_the_neighbour": (
        "a.insn = lw_word_insn(word, LW_WORD_INVALIDATE);",
        "a.insn = LW_INSN_DISCARD;",
    ),
    "invalidate_only_cleans": (
        "a.insn = lw_word_insn(word, LW_WORD_INVALIDATE);",
        "a.insn = lw_word_insn(word, LW_WORD_CLEAN);",
    ),
    "invalidate_orders_stores_only": (
        "LW_WORD_INVALIDATE);\n        a.order = a.full = true;",
        "LW_WORD_INVALIDATE);\n        a.order = true;",
    ),
    "invalidate_before_the_device_is_done": (
        "LW_WORD_INVALIDATE);\n        a.order = a.full = true;",
        "LW_WORD_INVALIDATE);\n        a.full = true;",
    ),
    "coherent_forgets_persistence": ("op < LW_CACHE_PERSIST;", "op;"),
    "flush_overtakes_stores": (
        "    if (lw_cache_insn_is_strict(insn))\n        lw_cache_arch_order();",
        "    if (0)\n        lw_cache_arch_order();",
    ),
    "flush_not_fenced": (
        "    if (lw_cache_insn_is_strict(a.insn))\n        a.order = a.full = true;\n",
        "",
    ),
    "persist_wait_too_weak": (
        "    wait_for(action_of(lw_cache_word(), LW_CACHE_PERSIST).full);\n",
        "    wait_for(false);\n",
    ),
    "persist_claims_depth": ("    else if (deep || !best)\n", "    else if (!best)\n"),
}

LOG = {
    "log_append_not_durable": ("    error = make_durable(log, written, n);\n", "    error = 0;\n"),
    "log_forgets_the_last_record": (
        "make_durable(log, written, n);",
        "make_durable(log, written, n - 1);",
    ),
    "log_persists_headers_only": ("sizeof(header) + records[i].iov_len};", "sizeof(header) };"),
    "log_checks_no_bytes": ("return check == header->check;", "(void)check;\n    return true;"),
    "log_ignores_epochs": (" && header.epoch >= epoch) {", ") {"),
    "log_epoch_not_durable": (
        "    put(log, position, &slot.magic, sizeof(slot.magic));\n    return "
        "make_range_durable(log, position,"
        " sizeof(slot));",
        "    put(log, position, &slot.magic, sizeof(slot.magic));\n    return 0;",
    ),
    "log_one_slot": ("size_t position = epoch % 2 * SLOT_BYTES;", "size_t position = 0;"),
    "log_slot_written_at_once": (
        "    put(log, position, &none, sizeof(none));\n",
        "    (void)none;\n",
    ),
    "log_believes_a_damaged_slot_away": (
        "        if (slot.magic != LOG_MAGIC || slot.check != check_of_slot(&slot) || "
        "slot.bytes != log->bytes)\n     "
        "       return -EBADMSG;",
        "        if (slot.magic != LOG_MAGIC || slot.check != check_of_slot(&slot) || "
        "slot.bytes != log->bytes)\n     "
        "       continue;",
    ),
    "log_accepts_what_is_not_durable": (
        "make_range_durable(log, 0, log->tail);",
        "make_range_durable(log, 0, LOG_FIRST);",
    ),
}


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--list"]:
        print(";".join({"library": LIBRARY, "log": LOG}[arguments[1]]), end="")
        return 0
    name, source, target = arguments
    original, mutated = (LIBRARY | LOG)[name]
    text = Path(source).read_text()
    if text.count(original) != 1:
        print(
            f"mutants.py: {name}: its original text is in {source} {text.count(original)} "
            "times, not once",
            file=sys.stderr,
        )
        return 2
    Path(target).write_text(text.replace(original, mutated))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
