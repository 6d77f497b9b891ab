/* SPDX-License-Identifier: MIT */
/* A program whose atomics sit in the shared library that it calls. */
int sums(void);

int main(void) { return sums(); }
