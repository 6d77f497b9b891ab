/* SPDX-License-Identifier: MIT */
/* An empty library for programs of another architecture: cmake/Linewright.cmake says why. */
extern int linewright_nothing;
