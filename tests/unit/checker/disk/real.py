"""The files of real brokers in tests/fixtures/disk, and the output of Kafka's own dump tool."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from functools import cache
from pathlib import Path
from typing import Final

FIXTURES: Final = Path(__file__).parents[3] / "fixtures" / "disk"
VERSIONS: Final = tuple(sorted(path.name.removesuffix(".tar.gz") for path in FIXTURES.glob("*.tar.gz")))
NODES: Final = ("n1", "n2", "n3")
_FIELD: Final = re.compile(r"(\w+): (\S+)")


def unpacked(version: str, at: Path) -> Path:
    """Unpacks the data folders of a version's three brokers into `at`."""
    with tarfile.open(FIXTURES / f"{version}.tar.gz") as tar:
        tar.extractall(at, filter="data")
    return at


@cache
def dumped(version: str) -> dict[str, list[dict[str, str]]]:
    """By file, its lines as fields."""
    dumped = json.loads(gzip.decompress((FIXTURES / f"{version}.json.gz").read_bytes()))
    return {name: [dict(_FIELD.findall(line)) for line in lines] for name, lines in dumped.items()}
