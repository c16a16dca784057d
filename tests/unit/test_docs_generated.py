"""The generated catalogues match the current output of docs/generate.py."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from checker.anomalies.catalogue import CATALOGUE
from nemesis import table as nemeses

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "generate.py"))


@pytest.mark.parametrize("name", ["anomalies", "errors", "faults", "versions"])
def test_the_file_is_what_the_script_makes(made: dict[str, Any], name: str) -> None:
    stored = (DOCS / f"{name}.md").read_text()
    assert stored == made[name](), f"docs/{name}.md is out of date; run: make docs"


def test_every_anomaly_has_a_section(made: dict[str, Any]) -> None:
    records = [name for name, anomaly in CATALOGUE.items() if anomaly.kind == "records"]
    sections = re.findall(r"^## (.*)$", made["anomalies"](), re.MULTILINE)
    assert sections == [*records, "Cycles", "What faults leave of a promise", "Pipelines"]


def test_every_file_that_is_named_is_there(made: dict[str, Any]) -> None:
    for path in re.findall(r"`(checker/\S*\.py)`", made["anomalies"]()):
        assert (DOCS.parent / path).is_file(), path


def test_every_fault_and_short_name_is_listed(made: dict[str, Any]) -> None:
    text = made["faults"]()
    for verb, row in nemeses.VERBS.items():
        for target in row.targets:
            assert f"| `{verb}:{target}` |" in text
    for short in nemeses.aliases():
        assert f"`{short}`" in text
    assert "ring:client" not in text


def test_network_faults_are_only_where_there_is_a_network(made: dict[str, Any]) -> None:
    row = next(line for line in made["faults"]().splitlines() if line.startswith("| `isolate:leader` |"))
    assert row.endswith("| Network | `local`, `docker`, `ssh` |")


def test_sources_are_named_for_readers(made: dict[str, Any]) -> None:
    """They do not refer to papers by file names that are not in the repository."""
    assert not re.search(r"document \d|checker\.md", made["anomalies"]())


def test_a_condition_without_a_wording_is_an_error(made: dict[str, Any]) -> None:
    def new_condition(settings: Any) -> bool:
        return True

    with pytest.raises(KeyError):
        made["_condition"](new_condition)
