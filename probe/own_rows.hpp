// Makes LW_FORM() of the table of forms an LW_ROW() for the rows of this architecture, and nothing for those of others.
// A file that includes a part of the table with it defines LW_ROW(name, operation, order, bits, needs) before each time.
#pragma once

#define LW_ROW_any(...) LW_ROW(__VA_ARGS__)
#if defined(__x86_64__)
#define LW_ROW_x86_64(...) LW_ROW(__VA_ARGS__)
#else
#define LW_ROW_x86_64(...)
#endif
#if defined(__i386__)
#define LW_ROW_i386(...) LW_ROW(__VA_ARGS__)
#else
#define LW_ROW_i386(...)
#endif
#if defined(__aarch64__)
#define LW_ROW_arm64(...) LW_ROW(__VA_ARGS__)
#else
#define LW_ROW_arm64(...)
#endif
#define LW_FORM(arch, ...) LW_ROW_##arch(__VA_ARGS__)
