# SPDX-License-Identifier: MIT
"""Which atomic operations a program or library holds, read from its machine code on any host.

`image` reads the ELF file, `arm64` and `x86` know the instructions, `helpers` the outlined helpers
of arm64, and `inspection` puts a picture together, function by function."""
