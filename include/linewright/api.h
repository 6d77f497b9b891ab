/* What marks a function or word of the library as part of its interface; all else stays hidden in the shared one. */
#ifndef LINEWRIGHT_API_H
#define LINEWRIGHT_API_H

#if defined(__GNUC__)
#define LW_API __attribute__((visibility("default")))
#else
#define LW_API
#endif

#endif
