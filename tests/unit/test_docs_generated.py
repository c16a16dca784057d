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
NAMES = ("anomalies", "errors", "faults", "options", "versions")


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "generate.py"))


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_what_the_script_makes(made: dict[str, Any], name: str) -> None:
    stored = (DOCS / "reference" / f"{name}.md").read_text()
    assert stored == made["PAGES"][name](), f"docs/reference/{name}.md is out of date; run: make docs"


def test_every_generated_page_is_compared(made: dict[str, Any]) -> None:
    assert set(made["PAGES"]) == set(NAMES)


def test_every_anomaly_has_a_section(made: dict[str, Any]) -> None:
    records = [name for name, anomaly in CATALOGUE.items() if anomaly.kind == "records"]
    sections = re.findall(r"^## (.*)$", made["anomalies"](), re.MULTILINE)
    assert sections == [*records, "Cycles", "Pipelines", "Share groups", "Upgrades", "The metadata log", "Liveness"]


def test_every_file_that_is_named_is_there(made: dict[str, Any]) -> None:
    for path in re.findall(r"`(checker/\S*\.py)`", made["anomalies"]()):
        assert (DOCS.parent / path).is_file(), path


def test_every_fault_and_short_name_is_listed(made: dict[str, Any]) -> None:
    rows = rows_by_verb(made)
    assert list(rows) == list(nemeses.VERBS)
    for verb, row in nemeses.VERBS.items():
        assert all(f"[`{name}`]" in rows[verb] for name in row.named)
        assert ("[nodes]" in rows[verb]) == row.nodes
    for short, full in nemeses.aliases().items():
        assert f"| `{short}` | `{full}` |" in made["faults"]()


def test_network_faults_are_only_where_there_is_a_network(made: dict[str, Any]) -> None:
    assert "| [Network](#capabilities) |" in rows_by_verb(made)["isolate-in"]
    row = next(line for line in made["faults"]().splitlines() if line.startswith("| `Network` |"))
    assert row.endswith("| `local`, `docker`, `ssh` |")


def test_every_command_has_a_section(made: dict[str, Any]) -> None:
    sections = re.findall(r"^## (.*)$", made["options"](), re.MULTILINE)
    assert {"harness run", "harness check", "harness cluster up", "harness nemesis list"} <= set(sections)


def rows_by_verb(made: dict[str, Any]) -> dict[str, str]:
    """The rows of the page of faults, by their verbs."""
    table = made["faults"]().partition("## Targets")[0]
    return {line.split("`")[1]: line for line in table.splitlines() if line.startswith("| `")}


def test_sources_are_named_for_readers(made: dict[str, Any]) -> None:
    """They do not refer to papers by file names that are not in the repository."""
    assert not re.search(r"document \d|checker\.md", made["anomalies"]())


def test_a_condition_without_a_wording_is_an_error(made: dict[str, Any]) -> None:
    def new_condition(settings: Any) -> bool:
        return True

    with pytest.raises(KeyError):
        made["_condition"](new_condition)
