/* SPDX-License-Identifier: MIT */
/* Says whether the look-alikes it is linked with are as they are in the file. Its own atomics are inlined. */
void tell(const char *path);

int main(int argc, char **argv) {
    (void)argc;
    tell(argv[0]);
    return 0;
}
