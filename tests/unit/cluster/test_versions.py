"""Which versions exist, and where each keeps its metadata."""

from __future__ import annotations

import pytest

from harness.cluster.distribution import versions
from harness.model.errors_and_exit_codes import BadInput


def test_a_series_is_its_last_known_patch() -> None:
    assert versions.resolve("2.4") == "2.4.1"
    assert versions.resolve("3.9.0") == "3.9.0"
    assert all(patch.startswith(f"{series}.") for series, patch in versions.SERIES.items())


@pytest.mark.parametrize("text", ["", "4", "3.6", "latest", "4.1.1.1", "../../x", "4.1.1\n"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"three numbers.*2\.4"):
        versions.resolve(text)


@pytest.mark.parametrize(
    ("version", "modes"),
    [
        ("2.3.1", ()),
        ("2.4.0", ("zookeeper",)),
        ("2.8.2", ("zookeeper",)),
        ("3.2.3", ("zookeeper",)),
        ("3.3.1", ("kraft", "zookeeper")),
        ("3.9.2", ("kraft", "zookeeper")),
        ("4.0.0", ("kraft",)),
    ],
)
def test_where_the_metadata_can_be(version: str, modes: tuple[versions.Metadata, ...]) -> None:
    assert versions.modes(version) == modes
    assert not modes or versions.default_metadata(version) == modes[0]
    for metadata in modes:
        versions.check(version, metadata)


def test_a_refusal_names_what_to_use() -> None:
    with pytest.raises(BadInput, match=r"4\.0\.2: ZooKeeper was removed in 4\.0\.0; use --metadata kraft"):
        versions.check("4.0.2", "zookeeper")
    with pytest.raises(BadInput, match="use --metadata zookeeper"):
        versions.check("3.2.0", "kraft")
    with pytest.raises(BadInput, match=r"2\.3\.1: must be 2\.4\.0 or newer"):
        versions.check("2.3.1", "zookeeper")
