"""Where the build leaves what the tests of `find` run."""

from __future__ import annotations

from support.places import ROOT

SAMPLER = ROOT / "build/native/find/linewright-find"
PLANTED = ROOT / "build/native/tests/cpp/find/find_planted"
