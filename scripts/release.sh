#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# release.sh [FOLDER]: the source release, linewright-VERSION.tar.gz, of the last commit, in dist/ or a folder. The same
# commit gives the same bytes.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

folder=${1:-dist}
version=$(git show HEAD:linewright/__init__.py | sed -n 's/^__version__ = "\(.*\)"$/\1/p')
[[ -z $(git status --porcelain --untracked-files=no) ]] || say "what is not committed is not part of the release"
mkdir -p "$folder"
git archive --format=tar --prefix="linewright-$version/" HEAD | gzip --no-name -9 >"$folder/linewright-$version.tar.gz"
printf '%s\n' "$folder/linewright-$version.tar.gz"
