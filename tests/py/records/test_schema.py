"""The shared examples against the definitions, against the printed JSON Schema, and the documentation against both."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest

from linewright import schema
from linewright.errors import UserError
from linewright.records.files import decode_line, decode_plan
from support.places import EXAMPLES, ROOT

DOCS = ROOT / "docs" / "reference" / "records.md"
VALID = sorted(EXAMPLES.glob("*-valid-*.json"))
INVALID = sorted(EXAMPLES.glob("*-invalid-*.json"))


def decode(path: Path):
    data = path.read_bytes()
    return (decode_plan if path.name.startswith("plan") else decode_line)(data, path.name)


def validator(path: Path) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema.schemas()[path.name.partition("-")[0]])


def test_there_are_examples_of_every_shape():
    for shape in schema.schemas():
        assert [path for path in VALID if path.name.startswith(shape)]
        assert len([path for path in INVALID if path.name.startswith(shape)]) >= 3


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_valid_example(path: Path):
    value = decode(path)
    validator(path).validate(json.loads(path.read_text()))
    assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_invalid_example(path: Path):
    with pytest.raises(UserError) as refusal:
        decode(path)
    assert path.name in str(refusal.value)
    reason = path.with_suffix(".txt").read_text()
    if reason.startswith("not JSON"):
        return
    accepted = validator(path).is_valid(json.loads(path.read_text()))
    assert accepted == reason.startswith("beyond the schema"), reason


def test_every_schema_is_a_schema():
    for shape in schema.schemas().values():
        jsonschema.Draft202012Validator.check_schema(shape)


def test_a_record_of_another_version_names_both():
    with pytest.raises(UserError, match="version 7, this program reads version 2"):
        decode(EXAMPLES / "context-invalid-version.json")


def documented() -> dict[str, list[str]]:
    """Field names in the first column of each shape's table in docs/reference/records.md, in its order."""
    fields: dict[str, list[str]] = {}
    shape = ""
    for line in DOCS.read_text().splitlines():
        if heading := re.match(r"#+ `(\w+)`", line):
            shape = heading[1]
        elif line.startswith("#"):
            shape = ""
        elif shape and (row := re.match(r"\| `(\w+)` \|", line)):
            fields.setdefault(shape, []).append(row[1])
    return fields


@pytest.mark.parametrize("name", ["Plan", "Cell", "Context", "Cpu", "Record", "Quantiles", "Interval", "Discarded"])
def test_documentation_names_every_field(name: str):
    assert sorted(documented()[name]) == sorted(getattr(schema, name).__struct_fields__)


def test_documentation_has_each_part_once_and_the_present_version():
    text = DOCS.read_text()
    headings = re.findall(r"^## .*$", text, re.M)
    assert len(set(headings)) == len(headings)
    assert re.findall(r"\| `linewright_(?:plan|context|record)` \| required \| version, (\d+) \|", text) == [
        "2",
        "2",
        "2",
    ]


def test_documentation_explains_every_flag_and_no_other():
    from linewright.analysis.plausible import MEANING

    part = DOCS.read_text().split("## Flags")[1].split("\n## ")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", part, re.M)) == MEANING


def test_examples_in_the_documentation_are_valid():
    blocks = re.findall(r"```json\n(.*?)```", DOCS.read_text(), re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    kinds = set()
    for line in lines:
        value = (decode_plan if "linewright_plan" in line else decode_line)(line.encode(), "docs/reference/records.md")
        kinds.add(type(value))
    assert kinds == {schema.Plan, schema.Context, schema.Record}
