"""Stores the results of experiments: a results.json for each experiment, and a track record, a table for all of them.

For each case, results.json contains the expectations, how many of the runs met them, when the anomaly could first be
proved, the versions, and the command that repeats the case.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from harness.experiments.expectations import wilson
from harness.experiments.run import Tried
from harness.experiments.spec import Experiment
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import derived
from harness.plan.test_plan import TestPlan
from harness.run import client_versions

SCHEMA: Final = 1
FILE: Final = "results.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """A case of an experiment and the results of its runs.

    expected      (description, k, n, whether the results agree) of each expectation; k of n runs met it
    unknown       number of runs with an unknown verdict
    detected_s    for each run that proved an anomaly: seconds until the first proof
    detected_ops  for each run that proved an anomaly: number of ops until the first proof
    """

    experiment: str
    case: str
    variant: str
    title: str
    versions: str
    command: str
    began: str
    expected: tuple[tuple[str, int, int, bool], ...]
    unknown: int
    detected_s: tuple[float, ...]
    detected_ops: tuple[int, ...]

    @property
    def name(self) -> str:
        """The names of the case and its variant. The case's name is omitted if it is the name of the experiment."""
        own = "" if self.case == self.experiment else self.case
        return " ".join(part for part in (own, self.variant) if part)


def data(chosen: Experiment, tried: Sequence[Tried], began: str) -> dict[str, Any]:
    """Returns the content of results.json. `began` is the start time in UTC (ISO 8601)."""
    return {
        "schema": SCHEMA,
        "experiment": chosen.name,
        "title": chosen.title,
        "kind": chosen.kind,
        "source": chosen.source,
        "began": began,
        "cases": [
            {
                **asdict(case_tried),
                "versions": versions(case_tried.case.test_plan(0)),
                "seen": [[seen.text, seen.k, seen.n, seen.agrees] for seen in case_tried.seen],
            }
            for case_tried in tried
        ],
    }


def versions(plan: TestPlan) -> str:
    """Returns the versions of the system under test and of the client, as text."""
    system = f"Kafka {plan.kafka_version}" if plan.cluster in ("local", "docker", "ssh") else plan.cluster
    if plan.cluster == "local" and derived.metadata_mode(plan) == "zookeeper":
        system += " with ZooKeeper"
    used = client_versions.used(plan).items()
    return ", ".join([system, *(f"{name} {version}".strip() for name, version in used)])


def entries(path: Path) -> list[Entry]:
    """Reads the cases in a results.json, or in the folder that contains it. Raises BadInput."""
    file = path / FILE if path.is_dir() else path
    try:
        results = json.loads(file.read_text())
        if results["schema"] > SCHEMA:
            raise BadInput(
                f"{file}: written with schema {results['schema']}; this version reads schemas up to {SCHEMA}: "
                "upgrade the harness"
            )
        return [_entry(results, case) for case in results["cases"]]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise BadInput(
            f"{file} does not contain results of `harness experiment run` ({type(error).__name__}: {error})"
        ) from None


def _entry(results: Mapping[str, Any], tried: Mapping[str, Any]) -> Entry:
    case = tried["case"]
    attempts = tried["attempts"]
    found = [each["detection"] for each in attempts if each.get("detection")]
    several = len(results["cases"]) > 1 or case["name"] != results["experiment"]
    command = f"harness experiment run {results['experiment']}"
    return Entry(
        results["experiment"],
        case["name"],
        case["variant"],
        case["title"],
        tried["versions"],
        f"{command} --case {case['variant'] or case['name']}" if several else command,
        results["began"],
        tuple((text, k, n, agrees) for text, k, n, agrees in tried["seen"]),
        sum(1 for each in attempts if each["valid"] == "unknown"),
        tuple(each["after_s"] for each in found),
        tuple(each["ops"] for each in found),
    )


def newest(found: Iterable[Entry]) -> list[Entry]:
    """Returns the latest results of each case, sorted by experiment."""
    kept: dict[tuple[str, str, str], Entry] = {}
    for entry in sorted(found, key=lambda entry: entry.began):
        kept.pop(at := (entry.experiment, entry.case, entry.variant), None)
        kept[at] = entry
    return sorted(kept.values(), key=lambda entry: entry.experiment)


def markdown(found: Sequence[Entry], command: str) -> str:
    """Returns the track record as a Markdown document. `command` is the command that created it."""
    if not found:
        return "# Track record\n\nNothing has been run.\n"
    first, last = min(entry.began for entry in found), max(entry.began for entry in found)
    when = first[:10] if first[:10] == last[:10] else f"{first[:10]} to {last[:10]}"
    wrong = [entry for entry in found if not all(agrees for *_, agrees in entry.expected)]
    lines = [
        "# Track record",
        "",
        f"Made by `{command}` from runs of {when}. Each row is a case of an experiment:",
        "what it expects, in how many runs this was seen, the 95% interval of that rate (Wilson), and",
        "after how many seconds and operations of a run the anomaly could first be proved (medians).",
        "Some of the cases are explained in docs/understand/findings.md.",
        "",
        f"{len(found)} cases, {len(wrong)} not as expected.",
        "",
        "| experiment | case | on | expected | seen | first proof | command |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_row(entry) for entry in found),
    ]
    return "\n".join(lines) + "\n"


def _row(entry: Entry) -> str:
    expected = "<br>".join(text for text, *_ in entry.expected)
    seen = "<br>".join(_share(k, n, agrees) for _, k, n, agrees in entry.expected)
    if entry.unknown:
        seen += f"<br>{entry.unknown} unknown"
    proof = ""
    if entry.detected_s:
        proof = f"{median(entry.detected_s):.1f} s, {median(entry.detected_ops):,.0f} ops"
    cells = (
        entry.experiment,
        entry.name,
        entry.versions,
        expected,
        seen,
        proof,
        f"`{entry.command}`",
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _share(k: int, n: int, agrees: bool) -> str:
    low, high = wilson(k, n)
    return f"{k} of {n} ({low:.0%} to {high:.0%}){'' if agrees else ' **disagrees**'}"
