"""The generated catalogues match the current output of docs/generate."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from checker.anomalies.catalogue import CATALOGUE
from docs.generate import anomalies, faults, options
from docs.generate.__main__ import PAGES
from docs.generate.markdown import NOTE
from nemesis import table as nemeses

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_the_file_is_what_the_generator_makes(name: str) -> None:
    stored = (DOCS / "reference" / f"{name}.md").read_text()
    assert stored == PAGES[name](), f"docs/reference/{name}.md is out of date; run: make docs"


def test_every_generated_page_is_compared() -> None:
    noted = {path.stem for path in (DOCS / "reference").glob("*.md") if NOTE in path.read_text()}
    assert set(PAGES) == noted


def test_every_anomaly_has_a_section() -> None:
    records = [name for name, anomaly in CATALOGUE.items() if anomaly.kind == "records"]
    sections = re.findall(r"^## (.*)$", anomalies.page(), re.MULTILINE)
    assert sections == [*records, "Cycles", "Pipelines", "Share groups", "Upgrades", "The metadata log", "Liveness"]


def test_every_file_that_is_named_is_there() -> None:
    for path in re.findall(r"`(checker/\S*\.py)`", anomalies.page()):
        assert (DOCS.parent / path).is_file(), path


def test_every_fault_and_short_name_is_listed() -> None:
    rows = rows_by_verb()
    assert list(rows) == list(nemeses.VERBS)
    for verb, row in nemeses.VERBS.items():
        assert all(f"[`{name}`]" in rows[verb] for name in row.named)
        assert ("[nodes]" in rows[verb]) == row.nodes
    for short, full in nemeses.aliases().items():
        assert f"| `{short}` | `{full}` |" in faults.page()


def test_network_faults_are_only_where_there_is_a_network() -> None:
    assert "| [Network](#capabilities) |" in rows_by_verb()["isolate-in"]
    row = next(line for line in faults.page().splitlines() if line.startswith("| `Network` |"))
    assert row.endswith("| `local`, `docker`, `ssh` |")


def test_every_command_has_a_section() -> None:
    sections = re.findall(r"^## (.*)$", options.page(), re.MULTILINE)
    assert {"harness run", "harness check", "harness cluster up", "harness nemesis list"} <= set(sections)


def rows_by_verb() -> dict[str, str]:
    """The rows of the page of faults, by their verbs."""
    table = faults.page().partition("## Targets")[0]
    return {line.split("`")[1]: line for line in table.splitlines() if line.startswith("| `")}


def test_sources_are_named_for_readers() -> None:
    """They do not refer to papers by file names that are not in the repository."""
    assert not re.search(r"document \d|checker\.md", anomalies.page())


def test_a_condition_without_a_wording_is_an_error() -> None:
    def new_condition(settings: Any) -> bool:
        return True

    with pytest.raises(KeyError):
        anomalies._condition(new_condition)
