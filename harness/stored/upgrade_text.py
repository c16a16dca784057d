"""Describes the steps of an upgrade in words: versions of the servers, and levels of the features."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any


def of_value(data: Mapping[str, Any]) -> list[str]:
    """Returns what a completed op of an upgrade says; [] for other ops."""
    return [*_versions(data), *_levels(data)]


def _versions(data: Mapping[str, Any]) -> Iterator[str]:
    before, after = data.get("from"), data.get("version")
    if isinstance(before, str) and isinstance(after, str):
        yield f"Kafka {before} to {after}"
    if isinstance(data.get("ended"), str):
        yield f"the server ended at its start: {data['ended']}"
    versions = data.get("versions")
    if isinstance(versions, dict):
        servers = defaultdict(list)
        for server, version in versions.items():
            servers[str(version)].append(str(server))
        yield "now " + ", ".join(f"{', '.join(names)}: {version}" for version, names in servers.items())
    pinned = data.get("pinned")
    if isinstance(pinned, list):
        yield f"protocol pinned on {', '.join(map(str, pinned))}"


def _levels(data: Mapping[str, Any]) -> Iterator[str]:
    asked, before = data.get("asked"), data.get("levels_before")
    if isinstance(asked, dict) and isinstance(before, dict):
        yield ", ".join(f"{name} {before.get(name, 0)} to {level}" for name, level in asked.items())
    if isinstance(data.get("refused"), str):
        yield f"refused: {data['refused']}"
    if isinstance(data.get("why"), str) and isinstance(data.get("versions"), dict):
        yield str(data["why"])
