/* SPDX-License-Identifier: GPL-2.0-only */
/* Whether lse_prefetch=on was given, as the table of CPU features asks for it. */
#ifndef __LSE_PREFETCH_OPTION_H
#define __LSE_PREFETCH_OPTION_H

struct arm64_cpu_capabilities;

bool has_lse_prefetch(const struct arm64_cpu_capabilities *entry, int scope);

#endif /* __LSE_PREFETCH_OPTION_H */
