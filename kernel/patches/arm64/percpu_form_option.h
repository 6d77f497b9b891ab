/* SPDX-License-Identifier: GPL-2.0-only */
/* What percpu_form= was given, as the table of CPU features asks for it. */
#ifndef __PERCPU_FORM_OPTION_H
#define __PERCPU_FORM_OPTION_H

struct arm64_cpu_capabilities;

bool has_percpu_store(const struct arm64_cpu_capabilities *entry, int scope);
bool has_percpu_load(const struct arm64_cpu_capabilities *entry, int scope);
bool has_percpu_prefetch(const struct arm64_cpu_capabilities *entry, int scope);

#endif /* __PERCPU_FORM_OPTION_H */
