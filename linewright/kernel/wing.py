# SPDX-License-Identifier: MIT
"""What `kernel` brings: cells inside this machine's kernel."""

from linewright.wings import TargetKind, Wing

WING = Wing(targets={"kernel": TargetKind("kernel", "linewright.kernel.kernel_target:open_kernel")})
