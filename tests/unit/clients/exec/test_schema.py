"""The machine-readable protocol, against the code that speaks it and the document that describes it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from harness.clients.exec import adapter, answers, open_fields
from harness.clients.settings import Settings

ROOT = Path(__file__).parents[4]
SCHEMA: dict[str, Any] = json.loads((ROOT / "harness/clients/exec/schema.json").read_text())
DOCUMENT = (ROOT / "docs/use/your-own-client.md").read_text()
MADE = Settings(bootstrap="b", run="r")


def test_open_has_the_fields_of_the_schema() -> None:
    producer, consumer = SCHEMA["requests"]["open"]["oneOf"]
    assert list(open_fields.producer(MADE)) == producer["required"]
    assert list(open_fields.consumer(MADE)) == consumer["required"]


def test_the_names_are_those_of_the_code() -> None:
    definitions = SCHEMA["$defs"]
    assert definitions["event"]["properties"]["event"]["enum"] == list(answers.EVENTS)
    assert definitions["error"]["properties"]["kind"]["enum"] == list(answers.KINDS)
    capabilities = SCHEMA["answers"]["hello"]["properties"]["capabilities"]["items"]["enum"]
    assert capabilities == list(adapter.CAPABILITIES)


def test_the_requests_are_those_that_the_code_makes() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "harness/clients/exec").glob("*.py"))
    made = set(re.findall(r'(?:request|post|polling)\("(\w+)"', sources)) | {"continue"}
    assert made <= set(SCHEMA["requests"]) == set(SCHEMA["$defs"]["request"]["properties"]["do"]["enum"])


def test_the_document_describes_every_name() -> None:
    names = [*SCHEMA["requests"], *adapter.CAPABILITIES, *open_fields.producer(MADE), *open_fields.consumer(MADE)]
    assert not [name for name in names if not re.search(rf"\b{name}\b", DOCUMENT)]
