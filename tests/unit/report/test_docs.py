"""The documents' descriptions of formats, anomalies and commands agree with the code."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
import typer

from checker.anomalies.catalogue import CATALOGUE
from checker.tables import schema
from checker.verdict import results
from harness.cli import app
from harness.experiments import spec as experiment
from harness.experiments.matrix import spec as matrix
from harness.experiments.swarm import spec as swarm
from harness.model import check_result, op_json
from harness.plan import from_options
from nemesis import table as nemeses

ROOT = Path(__file__).parents[3]
HISTORY = (ROOT / "docs" / "reference" / "formats.md").read_text()
PAGES = ("README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")))

TABLES: dict[str, pa.Schema] = {
    "ops/*.parquet": schema.OPS,
    "sends/<bucket>/*.parquet": schema.SENDS,
    "polls/<bucket>/*.parquet": schema.POLLS,
    **{f"{name}.parquet": form for name, form in schema.SMALL.items()},
    "results/witnesses/<anomaly>.parquet": results.FORM,
}


def columns(row: str) -> list[str]:
    """The columns that a row of the document names, without remarks."""
    bare = re.sub(r"\([^)]*\)", "", row)
    known = {name for form in TABLES.values() for name in form.names}
    return [word for part in bare.split(",") if (word := part.strip()) in known]


@pytest.mark.parametrize("table", TABLES)
def test_tables_have_the_documented_columns(table: str) -> None:
    found = re.search(rf"^\| `{re.escape(table)}` \| (.*) \|$", HISTORY, re.MULTILINE)
    assert found, f"docs/reference/formats.md has no row for {table}"
    assert columns(found.group(1)) == TABLES[table].names


def test_documented_schemas_are_the_current_ones() -> None:
    assert f"## The history, schema {op_json.SCHEMA}\n" in HISTORY
    assert f"## The tables, schema {schema.SCHEMA}\n" in HISTORY
    assert f"## Results, schema {check_result.SCHEMA}\n" in HISTORY


@pytest.mark.parametrize("name", [name for name, anomaly in CATALOGUE.items() if anomaly.kind == "records"])
def test_the_witness_fields_of_every_anomaly_are_documented(name: str) -> None:
    rows = [line for line in HISTORY.splitlines() if line.startswith("| `")]
    assert any(f"`{name}`" in row.split(" | ")[0] for row in rows)


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for line in (ROOT / page).read_text().splitlines():
            if line.startswith("    harness "):
                found.append((page, line.partition("#")[0].strip()))
    return found


@pytest.mark.parametrize(("page", "line"), commands())
def test_documented_commands_parse(page: str, line: str) -> None:
    name, *arguments = shlex.split(line)[1:]
    group = typer.main.get_command(app.app)
    context = group.make_context("harness", [name, *arguments], resilient_parsing=False)
    _, command, rest = group.resolve_command(context, [name, *arguments])  # type: ignore[attr-defined]
    assert command is not None
    parsed = command.make_context(name, rest, parent=context)
    if parsed.params.get("nemesis"):
        nemeses.canonical(parsed.params["nemesis"], ["n1", "n2", "n3"])


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if target.startswith("https://"):
            continue
        assert ((ROOT / page).parent / target).is_file(), f"{page}: {target}"


def examples(page: str, beginning: str) -> list[str]:
    """The indented blocks of a page that begin so, as files."""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", (ROOT / page).read_text(), re.MULTILINE)
    texts = [textwrap.dedent(block).strip("\n") + "\n" for block in blocks]
    return [text for text in texts if text.startswith(beginning)]


@pytest.mark.parametrize("page", ["docs/start/tutorial.md", "docs/use/experiments.md"])
def test_documented_matrices_load(page: str, tmp_path: Path) -> None:
    (text,) = examples(page, "plan: {")
    (tmp_path / "ours.yaml").write_text(text)
    assert matrix.load(tmp_path / "ours.yaml", 1, None)


def test_the_documented_swarm_loads(tmp_path: Path) -> None:
    (text,) = examples("docs/use/experiments.md", "axes:")
    (tmp_path / "ours.yaml").write_text(text)
    assert swarm.load(tmp_path / "ours.yaml").faults


def test_the_documented_experiment_loads(tmp_path: Path) -> None:
    (text,) = examples("docs/use/experiments.md", "title: ")
    (tmp_path / "ours.yaml").write_text(text)
    assert experiment.load(tmp_path / "ours.yaml").cases


def test_the_documented_schedule_loads(tmp_path: Path) -> None:
    (text,) = examples("docs/use/faults.md", "- fault: kill:leader")
    (tmp_path / "faults.yaml").write_text(text)
    plan, _ = from_options.gather({"txn": True}, None, tmp_path / "faults.yaml")
    assert len(plan.schedule) == text.count("- fault:")
