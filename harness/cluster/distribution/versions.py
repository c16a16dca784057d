"""Kafka versions: the last patch release of each series, and where each version stores its metadata. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from harness.model.errors_and_exit_codes import BadInput

DEFAULT: Final = "4.4.0"
# The series that are tested, each with its latest patch on Maven Central when this was written.
SERIES: Final[Mapping[str, str]] = {
    "2.4": "2.4.1",
    "2.8": "2.8.2",
    "3.4": "3.4.1",
    "3.8": "3.8.1",
    "3.9": "3.9.2",
    "4.0": "4.0.2",
    "4.1": "4.1.2",
    "4.2": "4.2.2",
    "4.3": "4.3.1",
    "4.4": "4.4.0",
}
# Major versions of Java with which clusters of a series have been tested.
JAVA: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(SERIES, (17, 21, 25)),
    "4.2": (17,),
    "4.4": (17, 21),
}
OLDEST: Final = (2, 4, 0)  # the first with a build for Scala 2.13
OLDEST_KRAFT: Final = (3, 3, 1)  # KRaft is production-ready from here on (KIP-833)
WITHOUT_ZOOKEEPER: Final = (4, 0, 0)  # KIP-500, KIP-896

Metadata = Literal["kraft", "zookeeper"]
KRAFT: Final = "kraft"
ZOOKEEPER: Final = "zookeeper"


def resolve(text: str) -> str:
    """Returns the version that a user means: a series ("2.4") stands for its latest known patch. Raises BadInput."""
    version = SERIES.get(text, text)
    parse_version(version)
    return version


def parse_version(version: str) -> tuple[int, int, int]:
    """Parses a version: "4.1.1" becomes (4, 1, 1). Raises BadInput."""
    matched = re.fullmatch(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})", version)
    if not matched:
        raise BadInput(
            f"Kafka version {version!r}: must be three numbers, such as {DEFAULT}, or one of {', '.join(SERIES)}"
        )
    return int(matched[1]), int(matched[2]), int(matched[3])


def default_metadata(version: str) -> Metadata:
    """Returns "zookeeper" for versions in which KRaft was not yet production-ready, and "kraft" for later ones."""
    return KRAFT if parse_version(version) >= OLDEST_KRAFT else ZOOKEEPER


def modes(version: str) -> tuple[Metadata, ...]:
    """Returns the metadata stores that a version supports ("kraft", "zookeeper"), the default first.

    Returns () if the harness does not support the version, because it is too old.
    """
    number = parse_version(version)
    if number < OLDEST:
        return ()
    zookeeper: tuple[Metadata, ...] = (ZOOKEEPER,) if number < WITHOUT_ZOOKEEPER else ()
    return (KRAFT, *zookeeper) if number >= OLDEST_KRAFT else zookeeper


def check(version: str, metadata: Metadata) -> None:
    """Raises BadInput if the harness does not support this version, or not with this metadata store."""
    allowed = modes(version)
    if not allowed:
        raise BadInput(f"Kafka version {version}: must be {_text(OLDEST)} or newer")
    if metadata not in allowed:
        bound = (
            f"KRaft is production-ready from {_text(OLDEST_KRAFT)} on"
            if metadata == KRAFT
            else f"ZooKeeper was removed in {_text(WITHOUT_ZOOKEEPER)}"
        )
        raise BadInput(f"--metadata {metadata} with Kafka {version}: {bound}; use --metadata {allowed[0]}")


def _text(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
