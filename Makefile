# SPDX-License-Identifier: MIT
# Errands of this checkout; `make` alone lists them. The work is in scripts/.

.DEFAULT_GOAL := help
# Each errand uses all cores by itself, and a measurement wants the machine alone.
.NOTPARALLEL:
.PHONY: help setup measure check test kernel-test bench verify fuzz man api wheel deb release package-test clean

# The plan to measure; options for `linewright measure`, test steps, or bench areas.
PLAN ?= quick
ARGS ?=
export PLAN

help: ## what can be made
	@echo 'make TARGET [PLAN=quick] [ARGS="…"] [PYTHON=python3]'
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## install what measuring needs: packages by apt (as root), Python parts into .venv
	@scripts/setup.sh measure

measure: ## set up, build the probe, run a plan on this machine, show the table; keeps results/PLAN.jsonl
	@scripts/setup.sh measure scripts/probe.sh
	@scripts/measure.sh $(ARGS)

check: ## format, lint, lengths, documentation, commit subjects: under a minute; ARGS names parts
	@scripts/setup.sh check
	@scripts/check.sh $(ARGS)

test: ## the tests of a change: check, native, Python, library for i386, arm64 and under ASan; ARGS=rest, nightly or all: the others; or steps
	@scripts/test.sh $(ARGS)

kernel-test: ## the module in every kernel of Debian's by two compilers, and our patches in small kernels, emulated; ARGS names some
	@scripts/setup.sh kernel
	@scripts/kernel-test.sh $(ARGS)

bench: ## runs side by side with peers; ARGS names areas under bench/
	@scripts/setup.sh bench
	@scripts/bench.sh $(ARGS)

verify: ## litmus tests and model-checked harnesses, with the checkers that are installed
	@scripts/rooms.sh verify $(ARGS)

fuzz: ## long fuzzing; ARGS names areas under tests/fuzz/
	@scripts/setup.sh fuzz
	@scripts/rooms.sh tests/fuzz $(ARGS)

man: ## manual pages of the commands and the public headers into build/man
	@scripts/setup.sh measure
	@.venv/bin/python scripts/man.py build/man

api: ## the API reference of the public headers, by Doxygen, into build/api/html
	@mkdir -p build
	@LINEWRIGHT_VERSION=$$(sed -n 's/^__version__ = "\(.*\)"$$/\1/p' linewright/__init__.py) doxygen docs/Doxyfile

wheel: ## a wheel with the probes of every architecture and the manual pages, into dist/
	@scripts/setup.sh wheel
	@scripts/wheel.sh $(ARGS)

deb: ## Debian packages of library, development files, probe and command, into dist/
	@scripts/setup.sh deb
	@scripts/deb.sh $(ARGS)

release: ## the source release of the last commit, into dist/
	@scripts/release.sh $(ARGS)

package-test: ## Debian packages (as root), the wheel with arm64 and i386 hosts, release without a network, musl, others' lock tests; ARGS names some
	@scripts/setup.sh deb
	@scripts/setup.sh package
	@scripts/rooms.sh tests/packages $(ARGS)

clean: ## remove everything built and set up; results/ stays
	rm -rf build .venv dist .pytest_cache .hypothesis
