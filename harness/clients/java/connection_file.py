"""A file of properties for Kafka's Java client: how to connect, with its secrets.

Names: https://kafka.apache.org/documentation/#consumerconfigs
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.clients import properties_file
from harness.model.errors_and_exit_codes import BadInput

# What Spark's source sets itself, and refuses or must not be told.
OWNED: Final = frozenset(
    [
        "bootstrap.servers",
        "group.id",
        "auto.offset.reset",
        "enable.auto.commit",
        "isolation.level",
        "key.deserializer",
        "value.deserializer",
        "interceptor.classes",
    ]
)


def load(path: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The properties in a file: see `properties_file.load`."""
    return properties_file.load(path, environment, _check)


def _check(name: str, where: str) -> None:
    if name in OWNED:
        raise BadInput(f"{where}: {name} is set by the harness; leave it out")
