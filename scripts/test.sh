#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test.sh [quick|rest|nightly|all|step…]: builds and runs tests, one headed step after the other, and sums up. Without words: quick.
# A failing step does not keep the later ones from running. What the steps need is set up first.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# The quick lane is what a change is tested by, with the native build first: pytest, which waits much, runs beside all that comes after
# it. The rest is whole builds, emulated kernels, packages, browsers, a clean root, and what else takes minutes. What only repeats what those show, with more
# rounds or on a further machine, is nightly. `all` is all three. CONTRIBUTING.md says what belongs where.
quick=(native check library-i386-asan library-arm64 pytest)
rest=(i386 arm64 asan c-paths native-long pytest-long tsan root)
nightly=(native-nightly pytest-nightly roots)
# Seconds of a lane after which it tries no clean root any more: on a slow machine only the night does.
time_for_root=1500

jobs=$(nproc)
passed=() failed=() skipped=()

# Labels of the tests of the long lane, and of those that the quick lane leaves to others.
long='^(slow|system|packages)$'
long_elsewhere='^(slow|system|packages|program|variant)$'
later='^(slow|system|packages|nightly)$'

run_ctest() { # run_ctest PRESET [option…]
    ctest --preset "$@" --no-tests=error -j "$jobs"
}

# ThreadSanitizer wants its shadow where address randomisation may have put something else.
run_tsan() {
    local fixed=(setarch "$(uname -m)" -R)
    "${fixed[@]}" true 2>/dev/null || fixed=()
    "${fixed[@]}" ctest --preset tsan --no-tests=error -j "$jobs"
}

# By file: what a file sets up once is set up once. In the order of tests/py/conftest.py, not by the number of tests. One process more
# than CPUs, since tests of the command wait for programs.
run_pytest() { # run_pytest MARKERS [option…]
    .venv/bin/python -m pytest -n $((jobs + 1)) --dist loadfile --no-loadscope-reorder --durations 10 --rerun-show-tracebacks \
        -m "$1" "${@:2}" tests/py
}

# Examples that the lanes do not try, drawn anew each night.
run_drawn() {
    local seed=$RANDOM
    echo "seed $seed"
    run_pytest hypothesis --hypothesis-profile drawn --hypothesis-seed "$seed"
}

# Tests of the command wait much, and so do those of programs: once the native programs stand, pytest runs beside the other steps.
early=
run_early() {
    run_pytest 'not slow and not cross' >"$logs/pytest.log" 2>&1
}
start_early() {
    if [[ -z $early && " ${coming[*]} " == *" pytest "* ]]; then
        beside run_early
        early=$!
    fi
}
await_early() {
    local code=0
    wait "$early" || code=$?
    cat "$logs/pytest.log"
    return "$code"
}

export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

heading() {
    case $1 in
        check) echo 'check: format, lint, lengths, documentation, commit subjects' ;;
        native) echo 'this machine: build, ctest' ;;
        native-long) echo 'this machine: ctest of what takes long' ;;
        native-nightly) echo 'this machine: ctest of what is repeated with more rounds' ;;
        c-paths) echo "clang's analyzer: the library's C along every path" ;;
        library-i386-asan) echo 'i386 under AddressSanitizer and UBSan: library and readers of plans' ;;
        library-arm64) echo 'arm64 under qemu-user, with and without LSE: library' ;;
        i386) echo 'i386: whole build, ctest' ;;
        arm64) echo 'arm64: whole build, ctest of the programs, and under an emulated kernel' ;;
        asan) echo 'AddressSanitizer and UBSan: whole build, ctest' ;;
        tsan) echo 'ThreadSanitizer: build, ctest' ;;
        pytest) echo 'pytest: the command, with the native probe' ;;
        root) echo 'a clean root of a distribution, which one by the day: make measure' ;;
        roots) echo 'a clean root of a distribution, which one by the day: make measure, pip install, its compilers' ;;
        pytest-nightly) echo 'pytest: what is repeated on further machines and with other random examples' ;;
        pytest-long) echo 'pytest: what takes long, and what wants the programs of other architectures' ;;
    esac
}

one() { # one STEP
    case $1 in
        check) scripts/check.sh ;;
        native) scripts/build.sh native && start_early && run_ctest native -LE "$later" ;;
        native-long) scripts/build.sh native && run_ctest native -L "$long" ;;
        native-nightly) scripts/build.sh native && run_ctest native -L '^nightly$' ;;
        c-paths) scripts/check.sh c-paths ;;
        library-*) start_early && scripts/build.sh "${1#library-}" lw_library_tests && run_ctest "${1#library-}" -LE "$long_elsewhere" ;;
        pytest) if [[ -n $early ]]; then await_early; else scripts/build.sh native && run_pytest 'not slow and not cross'; fi ;;
        pytest-long) scripts/build.sh native && run_pytest '(slow or cross) and not nightly' ;;
        pytest-nightly) scripts/build.sh native && run_pytest nightly && run_drawn ;;
        tsan) scripts/build.sh tsan && run_tsan ;;
        root) LINEWRIGHT_ROOT_STEPS=measure tests/packages/roots/run ;;
        # What most strangers do, and their compilers; all steps are for a release.
        roots) LINEWRIGHT_ROOT_STEPS=${LINEWRIGHT_ROOT_STEPS-measure pip compilers} tests/packages/roots/run ;;
        arm64) scripts/build.sh arm64 && run_ctest arm64 -L "$long_elsewhere" ;;
        *) scripts/build.sh "$1" && run_ctest "$1" ;;
    esac
}

# Why a step cannot be tried, empty when it can.
obstacle() {
    case $1 in
        *i386* | *arm64 | native-nightly) [[ $(uname -m) == x86_64 ]] || echo "only built on x86-64 machines" ;;
        root*)
            if [[ $1 == root ]] && ((SECONDS > time_for_root)); then
                echo "the lane has taken $SECONDS s already, more than $time_for_root"
            elif [[ $(id -u) != 0 ]] || ! command -v debootstrap >/dev/null; then
                echo "asks for root and debootstrap"
            elif ! unshare --mount --pid --fork --propagation private bash -euc 'mount -t tmpfs none /mnt
                    mkdir /mnt/{lower,upper,work,root}
                    mount -t overlay -o lowerdir=/mnt/lower,upperdir=/mnt/upper,workdir=/mnt/work none /mnt/root' 2>/dev/null; then
                echo "nothing may be mounted here"
            fi
            ;;
    esac
    return 0
}

run_step() { # run_step STEP
    local step=$1 why start=$SECONDS
    why=$(obstacle "$step")
    printf '\n=== %s\n' "$(heading "$step")"
    if [[ -n $why ]]; then
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

chosen=()
for word in "${@:-quick}"; do
    case $word in
        quick) chosen+=("${quick[@]}") ;;
        rest) chosen+=("${rest[@]}") ;;
        nightly) chosen+=("${nightly[@]}") ;;
        all) chosen+=("${quick[@]}" "${rest[@]}" "${nightly[@]}") ;;
        *)
            [[ " ${quick[*]} ${rest[*]} ${nightly[*]} " == *" $word "* ]] ||
                stop 2 "no test step '$word': quick, rest, nightly, all, ${quick[*]} ${rest[*]} ${nightly[*]}"
            chosen+=("$word")
            ;;
    esac
done

purpose=test
for step in "${chosen[@]}"; do
    [[ " ${quick[*]} " == *" $step "* ]] || purpose=rest
done
# The native build wants no Python of ours: it begins while .venv is first made. Should it fail, its step says so.
ahead=()
[[ ${chosen[0]} != native || -x .venv/bin/linewright ]] || ahead=(bash -c 'scripts/build.sh native || true')
scripts/setup.sh "$purpose" "${ahead[@]}"

mkdir -p "$logs"
for i in "${!chosen[@]}"; do
    coming=("${chosen[@]:i + 1}")
    run_step "${chosen[i]}" </dev/null
done

printf '\n=== summary, after %d s\n' "$SECONDS"
((${#skipped[@]} == 0)) || echo "not run here: ${skipped[*]}"
((${#failed[@]} == 0)) || echo "failed: ${failed[*]}"
echo "steps: ${#passed[@]} passed, ${#failed[@]} failed"
((${#failed[@]} == 0))
