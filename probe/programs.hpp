// SPDX-License-Identifier: MIT
// Runs programs on request and says what each took, so that no connection lies between a program and its clock.
#pragma once

#include <string>

namespace lw::probe {

// The helper of `linewright trial`, here and on another machine; the other side is linewright/trial/runner.py.
//
// It first writes a line about the machine: {"linewright_programs", "arch", "cpu_model", "cpus", "kernel", "boot_id",
// "boot_parameters"}. Then it reads lines from standard input. A request is a JSON object:
//   "command"      program (looked for in PATH) and arguments
//   "environment"  variables that are changed for it
//   "limit_s"      seconds after which it is ended; 0: none
//   "output"       bytes of its standard output that are wanted, at most
//   "threads"      whether its threads are counted while it runs: after 1 ms, 2 ms and so on, later every 20 ms
// and is answered by a line {"errno"}, or {"status" (as wait has it), "wall_s", "cpu_s", "maxrss_bytes", "late", "threads"
// (the most that were seen at once, its descendants' too; 0 where they were not counted), "errors" (the end of its standard
// error), "output_bytes"}, behind which that many bytes of its output follow. While a program runs, the line `end` asks it to
// end and `kill` kills it, both with all its descendants. The end of the input kills it and ends this helper.
//
// A program's output is kept meanwhile in files without a name, in $TMPDIR, else /tmp, else `folder`. Returns the exit code:
// 0, or 3 where standard output cannot be written. Throws std::system_error, and std::runtime_error for a line that is no
// request.
int run_programs(const std::string &folder);

} // namespace lw::probe
