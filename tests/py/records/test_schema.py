# SPDX-License-Identifier: MIT
"""The shared examples against the definitions, against the printed JSON Schema, and the
documentation against both."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest

from linewright import schema, wings
from linewright.errors import UserError
from linewright.records.files import decode_line, decode_plan
from support.places import EXAMPLES, ROOT

DOCS = ROOT / "docs" / "reference" / "records.md"
VALID = sorted(EXAMPLES.glob("*-valid-*.json"))
REFUSED = [json.loads(line) for line in (EXAMPLES / "refused.jsonl").read_text().splitlines()]


def decode(data: bytes, shape: str, where: str):
    return (decode_plan if shape == "plan" else decode_line)(data, where)


def validator(shape: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema.schemas()[shape])


def merged(base: dict, change: dict) -> dict:
    """JSON merge patch (RFC 7396), as wire/schema_test.cpp applies it."""
    result = dict(base)
    for key, value in change.items():
        if value is None:
            del result[key]
        elif isinstance(value, dict):
            result[key] = merged(result.get(key, {}), value)
        else:
            result[key] = value
    return result


def refused_text(row: dict) -> str:
    """The text of one row: the base with the change merged in; a text "@x" stands for a bare x."""
    if "text" in row:
        return row["text"]
    base = json.loads((EXAMPLES / f"{row['base']}.json").read_text())
    return re.sub(r'"@(\w+)"', r"\1", json.dumps(merged(base, row["change"])))


def shape_of(row: dict) -> str:
    return row.get("shape") or row["base"].partition("-")[0]


def test_there_are_examples_of_every_shape():
    for shape in schema.schemas():
        assert [path for path in VALID if path.name.startswith(shape)]
        assert len([row for row in REFUSED if shape_of(row) == shape]) >= 3


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_valid_example(path: Path):
    shape = path.name.partition("-")[0]
    value = decode(path.read_bytes(), shape, path.name)
    validator(shape).validate(json.loads(path.read_text()))
    assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{shape_of(row)}: {row['because']}")
def test_refused_example(row: dict):
    text, shape = refused_text(row), shape_of(row)
    with pytest.raises(UserError) as refusal:
        decode(text.encode(), shape, "here:1")
    assert "here:1" in str(refusal.value)
    if not row["because"].startswith("not JSON"):
        accepted = validator(shape).is_valid(json.loads(text))
        assert accepted == row["because"].startswith("beyond the schema")


def test_every_schema_is_a_schema():
    for shape in schema.schemas().values():
        jsonschema.Draft202012Validator.check_schema(shape)


def test_a_record_of_another_version_names_both():
    for version in ("1", "7"):
        line = f'{{"linewright_context": {version}}}'.encode()
        with pytest.raises(UserError, match=f"version {version}, this program reads version 2"):
            decode_line(line, "here:1")


def documented() -> dict[str, list[str]]:
    """Field names in the first column of each shape's table in docs/reference/records.md, in its
    order."""
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


@pytest.mark.parametrize(
    "name",
    [
        "Plan",
        "Cell",
        "Context",
        "Cpu",
        "Record",
        "Quantiles",
        "Interval",
        "Discards",
        "FormParts",
        "DrawnCosts",
    ],
)
def test_documentation_names_every_field(name: str):
    assert sorted(documented()[name]) == sorted(getattr(schema, name).__struct_fields__)


def test_documentation_has_each_part_once_and_the_present_version():
    text = DOCS.read_text()
    headings = re.findall(r"^## .*$", text, re.M)
    assert len(set(headings)) == len(headings)
    assert re.findall(
        r"\| `linewright_(?:plan|context|record)` \| required \| version, (\d+) \|", text
    ) == [
        "2",
        "2",
        "3",
    ]


def test_documentation_explains_every_flag_and_no_other():
    from linewright.say.words import MEANING

    known = MEANING | {
        name: text for of_wing in wings.brought("flags") for name, text in of_wing.items()
    }
    part = DOCS.read_text().split("## Flags")[1].split("\n## ")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", part, re.M)) == known


def test_examples_in_the_documentation_are_valid():
    blocks = re.findall(r"```json\n(.*?)```", DOCS.read_text(), re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    kinds = set()
    for line in lines:
        value = (decode_plan if "linewright_plan" in line else decode_line)(
            line.encode(), "docs/reference/records.md"
        )
        kinds.add(type(value))
    assert kinds == {schema.Plan, schema.Context, schema.Record}
