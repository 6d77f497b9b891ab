#!/usr/bin/env bash
# test.sh [step…]: builds and runs every test, one headed step after the other, and sums up.
# A failing step does not keep the later ones from running.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

jobs=$(nproc)
passed=() failed=() skipped=()

configure_and_build() { # configure_and_build PRESET
    local launcher=()
    # Named, not left to the environment: a tree configured before ccache came takes it up too.
    if [[ -n ${CMAKE_CXX_COMPILER_LAUNCHER:-} ]]; then
        launcher=(-DCMAKE_C_COMPILER_LAUNCHER="$CMAKE_C_COMPILER_LAUNCHER"
            -DCMAKE_CXX_COMPILER_LAUNCHER="$CMAKE_CXX_COMPILER_LAUNCHER")
    fi
    alone cmake --preset "$1" -DLINEWRIGHT_TESTS=ON "${launcher[@]}" >"$logs/configure-$1.log" 2>&1 ||
        { cat "$logs/configure-$1.log"; return 1; }
    alone cmake --build --preset "$1"
}

run_ctest() { # run_ctest PRESET [prefix…]
    local preset=$1
    shift
    "$@" ctest --preset "$preset" --no-tests=error -j "$jobs"
}

# ThreadSanitizer wants its shadow where address randomisation may have put something else.
run_tsan() {
    local fixed=(setarch "$(uname -m)" -R)
    "${fixed[@]}" true 2>/dev/null || fixed=()
    run_ctest tsan "${fixed[@]}"
}

# By file: what a file sets up once is set up once. In the order of tests/py/conftest.py, not by the number of tests.
run_pytest() {
    .venv/bin/python -m pytest -n "$jobs" --dist loadfile --no-loadscope-reorder tests/py
}

export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

# The probes of every architecture are built before pytest, which tries each that it finds.
steps=(check build-native build-i386 build-arm64 pytest native i386 arm64 build-asan asan build-tsan tsan)

heading() {
    case $1 in
        check) echo 'check: format, lint, lengths, documentation, commit subjects' ;;
        build-*) echo "build for ${1#build-}" ;;
        pytest) echo 'pytest: the command, with the native probe' ;;
        native) echo 'ctest: this machine' ;;
        i386) echo 'ctest: i386, run natively' ;;
        arm64) echo 'ctest: arm64 under qemu-user, with and without LSE' ;;
        asan) echo 'ctest: AddressSanitizer and UBSan' ;;
        tsan) echo 'ctest: ThreadSanitizer' ;;
    esac
}

one() { # one STEP
    case $1 in
        check) scripts/check.sh ;;
        build-*) configure_and_build "${1#build-}" ;;
        pytest) run_pytest ;;
        tsan) run_tsan ;;
        *) run_ctest "$1" ;;
    esac
}

# Why a step cannot be tried, empty when it can.
obstacle() {
    case $1 in
        *i386 | *arm64) [[ $(uname -m) == x86_64 ]] || echo "only built on x86-64 machines" ;;
    esac
    [[ " ${failed[*]} " == *" build-$1 "* ]] && echo "its build failed"
    return 0
}

run_step() { # run_step STEP
    local step=$1 why start=$SECONDS
    why=$(obstacle "$step")
    printf '\n=== %s\n' "$(heading "$step")"
    if [[ $why == *failed ]]; then
        echo "not run: $why"
        failed+=("$step")
    elif [[ -n $why ]]; then
        echo "not run: $why"
        skipped+=("$step")
    elif one "$step"; then
        passed+=("$step")
        echo "--- $step: passed in $((SECONDS - start)) s"
    else
        failed+=("$step")
        echo "--- $step: FAILED after $((SECONDS - start)) s"
    fi
}

mkdir -p "$logs"
for step in "$@"; do
    [[ " ${steps[*]} " == *" $step "* ]] || stop 2 "no test step '$step': ${steps[*]}"
done
for step in "${@:-${steps[@]}}"; do
    run_step "$step" </dev/null
done

printf '\n=== summary, after %d s\n' "$SECONDS"
((${#skipped[@]} == 0)) || echo "not run here: ${skipped[*]}"
((${#failed[@]} == 0)) || echo "failed: ${failed[*]}"
echo "steps: ${#passed[@]} passed, ${#failed[@]} failed"
((${#failed[@]} == 0))
