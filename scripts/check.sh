#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# check.sh [part…]: the checks of form that need no build: format, lint, lengths, documentation, commit subjects.
# A failing part does not keep the later ones from running. c-paths runs where it is named, which the long lane does.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

parts=(python-format python-lint c-format shell workflows lengths imports names openings words documentation subjects c-lint)
named=(c-paths)
PATH=$root/.venv/bin:$PATH

# The last commit whose subject may be longer than 72 characters; later ones may not.
subjects_since=91a7f26

c_files() {
    git ls-files -- '*.c' '*.h' '*.cpp' '*.hpp'
}

part() { # part NAME
    case $1 in
        python-format) ruff format --check --quiet . || { ruff format --diff --quiet . | head -n 40; false; } ;;
        python-lint) ruff check --quiet . ;;
        c-format) c_files | xargs clang-format --dry-run -Werror ;;
        shell) bash_parses ;;
        workflows) check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml ;;
        lengths) python scripts/check/function_length.py ;;
        imports) lint-imports --no-cache ;;
        names) python -m pytest -q -p no:cacheprovider tests/py/packaging/test_names.py ;;
        openings) python scripts/check/openings.py ;;
        words) python scripts/check/words.py ;;
        # Pages that are run as a whole want what the builds make: they are pytest's.
        documentation) python -m pytest -q -p no:cacheprovider -m 'not slow' tests/py/docs ;;
        subjects) subjects ;;
        c-lint) c_lint --checks='-clang-analyzer-*' ;;
        c-paths) c_lint ;;
    esac
}

bash_parses() {
    local file
    while read -r file; do
        bash -n "$file"
    done < <(git grep -lE '^#!/usr/bin/env bash' -- . ':!tests/py')
}

subjects() {
    # A shallow clone or an export holds no history to judge.
    git cat-file -e "$subjects_since^{commit}" 2>/dev/null || { echo 'no history here: not checked'; return 0; }
    git log --format='%h %s' "$subjects_since..HEAD" |
        awk '{ hash = $1; sub(/^[^ ]+ /, ""); if (length($0) > 72) { print hash ": the subject has " length($0) " characters, 72 are allowed: " $0; bad = 1 } } END { exit bad }'
}

# The library's C files alone: they need no build tree. Following every path through a function, as clang's analyzer does, takes five
# times as long as all other checks.
c_lint() { # c_lint [CLANG-TIDY'S-OPTION…]
    git ls-files -- 'src/common/*.c' 'src/atomic/*.c' 'src/percpu/*.c' 'src/srcu/*.c' 'src/rwlock/*.c' 'src/cache/*.c' 'src/wait/*.c' |
        xargs -P "$(nproc)" -n 3 sh -c \
            'out=$(clang-tidy --quiet "$@" -- -std=gnu11 -D_GNU_SOURCE -Iinclude -Isrc 2>&1) || { printf "%s\n" "$out"; exit 255; }' clang-tidy "$@"
}

for name in "$@"; do
    [[ " ${parts[*]} ${named[*]} " == *" $name "* ]] || stop 2 "no part '$name' of the check: ${parts[*]} ${named[*]}"
done
failed=()
for name in "${@:-${parts[@]}}"; do
    start=$SECONDS
    if output=$(part "$name" 2>&1 </dev/null); then
        printf '%-14s passed in %d s\n' "$name" $((SECONDS - start))
    else
        printf '%s\n%-14s FAILED\n' "$output" "$name"
        failed+=("$name")
    fi
done
((${#failed[@]} == 0)) || stop 1 "check: failed: ${failed[*]}"
