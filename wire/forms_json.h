/* SPDX-License-Identifier: MIT */
// Expands wire/forms.def into rows of JSON but for the names of their last columns, which wire/forms_json.cmake puts into
// quotes.
#undef i386
#define LW_FORM(arch, name, operation, order, bits, needs, ...) \
    {                                                           \
        "arch" : #arch,                                         \
        "name" : #name,                                         \
        "operation" : #operation,                               \
        "order" : #order,                                       \
        "width_bits" : bits,                                    \
        "needs" : #needs,                                       \
        "family" : LW_FAMILY,                                   \
        "made_of" : {__VA_ARGS__}                               \
    },
#include "wire/forms.def"
