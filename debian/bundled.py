# SPDX-License-Identifier: MIT
"""bundled.py SITE-PACKAGES: a Debian package's copyright file: debian/copyright, and a paragraph
for each Python package that it bundles, from that one's own metadata and licence files."""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

_LICENCE_FILE = re.compile(r"\.dist-info/(?:.*/)?(?:LICEN[CS]E|COPYING|NOTICE)[^/]*$", re.I)
_COMMON = {
    "GPL": re.compile(
        r"GNU GENERAL PUBLIC LICENSE\s+Version (\d).*?END OF TERMS AND CONDITIONS", re.S
    ),
    "Apache": re.compile(r"Apache License\s+Version (2\.0).*?END OF TERMS AND CONDITIONS", re.S),
}
"""Whole texts that every Debian system has: a copyright file refers to them."""
_CLASSIFIER = re.compile(r"^License :: (?:OSI Approved :: )?(.+?)(?: License)?$")


def short_name(distribution: Distribution) -> str:
    """The licence as the metadata names it: an expression, a short field, or a classifier."""
    metadata = distribution.metadata
    if expression := metadata.get("License-Expression"):
        return expression.replace(" AND ", " and ").replace(" OR ", " or ")
    field = metadata.get("License") or "\n"
    if "\n" not in field:
        return field.replace(" ", "-")
    for text in metadata.get_all("Classifier") or []:
        if found := _CLASSIFIER.match(text):
            return found[1].replace(" ", "-")
    raise ValueError(f"the metadata of {metadata['Name']} names no licence")


def paragraph(distribution: Distribution) -> str:
    """Files, Copyright and License of one bundled package; ValueError: it names no licence."""
    files = distribution.files or []
    text = "\n\n".join(
        distribution.locate_file(file).read_text(errors="replace").strip()
        for file in files
        if _LICENCE_FILE.search(str(file))
    )
    name = distribution.metadata["Name"]
    licence = short_name(distribution)
    holders = dict.fromkeys(re.findall(r"^\W*(Copyright\b.*\d{4}.*?)\W*$", text, re.M))
    author = distribution.metadata.get("Author") or distribution.metadata.get("Author-Email")
    roots = sorted({file.parts[0] for file in files if file.parts[0] not in ("..", "bin", "share")})
    folders = [f"usr/lib/linewright/*/{root}{'' if '.' in root else '/*'}" for root in roots]
    for common, whole in _COMMON.items():
        text = whole.sub(
            rf"On Debian systems the whole text is /usr/share/common-licenses/{common}-\1", text
        )
    text = text or f"See {distribution.metadata.get('Home-page') or 'its metadata'}."
    lines = (f" {line}" if line.strip() else " ." for line in text.split("\n"))
    return "\n".join(
        (
            f"Files: {' '.join(folders)}",
            f"Comment: {name} {distribution.version}, as its makers published it",
            "Copyright: " + "\n ".join(holders or [author or f"the authors of {name}"]),
            f"License: {licence}",
            *lines,
        )
    )


def main(folder: str) -> None:
    found = sorted(distributions(path=[folder]), key=lambda one: one.metadata["Name"].lower())
    own = Path("debian/copyright").read_text().rstrip()
    print("\n\n".join((own, *map(paragraph, found))))


main(sys.argv[1])
