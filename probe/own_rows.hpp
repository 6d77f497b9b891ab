// SPDX-License-Identifier: MIT
// Makes LW_FORM() of the table of forms an LW_ROW() for the rows of this architecture, and nothing for those of others.
// A file that includes a part of the table with it defines LW_ROW(name, operation, order, bits, needs) before each time,
// and LW_OWN_generic(bits) if compiler builtins of that width are among its forms.
#pragma once

#include <linewright/arch/select.h>

#define LW_OWN_any(bits) 0,
#define LW_ROW_OF_ANOTHER(...)
#define LW_SECOND(first, second, ...) second
#define LW_CHOSEN(...) LW_SECOND(__VA_ARGS__)
// LW_OWN_<arch> is `0,` where select.h has it, which makes LW_ROW the second argument; elsewhere it is no macro.
#define LW_FORM(arch, name, operation, order, bits, needs, ...) \
    LW_CHOSEN(LW_OWN_##arch(bits) LW_ROW, LW_ROW_OF_ANOTHER, )(name, operation, order, bits, needs)
