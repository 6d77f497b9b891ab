// SPDX-License-Identifier: MIT
// The settings a test goes through: those this CPU can do, and at least two where it has LSE or not.
#pragma once

#include <vector>

#ifndef LW_NO_POLICY
#include <linewright/policy.h>

inline std::vector<const char *> settings_of_this_cpu() {
    std::vector<const char *> settings;
    for (const char *s : {"default", "store", "load", "llsc", "prefetch", "store,prefetch", "load,prefetch", "llsc,prefetch",
                          "prefetch,cas=llsc", "llsc,void=prefetch", "store,fetch=llsc,xchg=llsc,cas=prefetch"})
        if (lw_policy_set(s) == 0)
            settings.push_back(s);
    lw_policy_set("default");
    return settings;
}
#else // forms fixed when compiled: one round, nothing to set
inline std::vector<const char *> settings_of_this_cpu() { return {"default"}; }
inline int lw_policy_set(const char *) { return 0; }
#endif
