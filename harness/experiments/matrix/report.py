"""Writes the results of a matrix: JUnit XML, a Markdown summary, and JSON for comparison with later matrices."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from harness.experiments.expectations import wilson
from harness.experiments.matrix.run import Done, counts
from harness.experiments.run import describe
from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_UNKNOWN, BadInput

MARKDOWN_BYTES: Final = 1_000_000
_NOT_XML: Final = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(done: Sequence[Done], folder: Path, changes: Sequence[str] = ()) -> list[Path]:
    """Writes junit.xml, summary.md and results.json into a folder, and returns their paths.

    `changes`: the result of `changed`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "junit.xml").write_bytes(junit(done))
    (folder / "summary.md").write_text(markdown(done, changes))
    (folder / "results.json").write_text(json.dumps([data(outcome) for outcome in done], default=str, indent=1))
    return [folder / name for name in ("summary.md", "junit.xml", "results.json")]


def data(outcome: Done) -> dict[str, Any]:
    """Returns the result of one run as plain data."""
    return {
        "name": outcome.cell.name,
        "seed": outcome.cell.seed,
        "exit_code": outcome.exit_code,
        "expected": outcome.cell.case.expect.texts,
        "plan": dict(outcome.cell.case.plan),
        "error": outcome.error,
        "attempt": asdict(outcome.attempt) if outcome.attempt is not None else None,
    }


def junit(done: Sequence[Done]) -> bytes:
    """Returns JUnit XML with a test case for each expectation of each run.

    A test case has failed if the run did not meet the expectation. It is skipped if the verdict of the run is unknown.
    """
    suite = ElementTree.Element("testsuite", name="harness matrix")
    counts = {"tests": 0, "failures": 0, "skipped": 0}
    for outcome in done:
        seconds = outcome.attempt.seconds if outcome.attempt is not None else 0.0
        answers = outcome.attempt.answers if outcome.attempt is not None else []
        for n, expected in enumerate(outcome.cell.case.expect.texts):
            case = ElementTree.SubElement(
                suite,
                "testcase",
                name=_plain(f"{expected} (seed {outcome.cell.seed})"),
                classname=_plain(outcome.cell.name),
                time=f"{seconds if n == 0 else 0:.1f}",
            )
            counts["tests"] += 1
            if outcome.exit_code == EXIT_UNKNOWN:
                counts["skipped"] += 1
                ElementTree.SubElement(case, "skipped", message=_plain(outcome.error or "verdict unknown"))
            elif not answers[n]:
                counts["failures"] += 1
                message = _plain(describe(outcome.attempt) if outcome.attempt is not None else outcome.error)
                ElementTree.SubElement(case, "failure", message=message).text = message
    suite.attrib |= {name: str(count) for name, count in counts.items()}
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written


def _plain(text: str) -> str:
    """Replaces the characters that XML does not allow with question marks."""
    return _NOT_XML.sub("?", text)


def markdown(done: Sequence[Done], changes: Sequence[str] = ()) -> str:
    """Returns the summary, which begins with the runs that were not as expected.

    Its size is limited to what GitHub displays.
    """
    wrong = [outcome for outcome in done if outcome.exit_code == EXIT_INVALID]
    unknown = [outcome for outcome in done if outcome.exit_code == EXIT_UNKNOWN and outcome.begun]
    lines = [
        f"# {counts(done)}",
        "",
        *(["## Changed since the baseline", "", *(f"- {line}" for line in changes), ""] if changes else []),
    ]
    for title, rows in (("Not as expected", wrong), ("Could not be judged", unknown)):
        if rows:
            lines += [f"## {title}", "", *(f"- {_line(outcome)}" for outcome in rows), ""]
    lines += ["## All", "", "| run | seed | verdict | as expected | s |", "| --- | --- | --- | --- | --- |"]
    for outcome in done:
        verdict, seconds = (
            (outcome.attempt.valid, f"{outcome.attempt.seconds:.0f}") if outcome.attempt else ("not run", "")
        )
        met = {0: "yes", EXIT_INVALID: "**no**"}.get(outcome.exit_code, "unknown" if outcome.begun else "")
        name = outcome.cell.name.replace("|", "\\|")
        lines.append(f"| {name} | {outcome.cell.seed} | {verdict} | {met} | {seconds} |")
    text = "\n".join(lines) + "\n"
    if len(text.encode()) > MARKDOWN_BYTES:
        text = text.encode()[:MARKDOWN_BYTES].decode(errors="ignore") + "\n\n(truncated: the rest is in results.json)\n"
    return text


def _line(outcome: Done) -> str:
    text = describe(outcome.attempt) if outcome.attempt is not None else f"not run: {outcome.error}"
    return f"{outcome.cell.name}: {text}".replace("\n", " ")


def changed(done: Sequence[Done], baseline: Path) -> list[str]:
    """Compares the rates of runs that were as expected with those in the results.json of an earlier matrix.

    Returns a line for each cell whose rate has changed: the 95% confidence intervals of the two rates do not overlap.
    Raises BadInput if the earlier file cannot be read.
    """
    path = baseline / "results.json" if baseline.is_dir() else baseline
    try:
        before = json.loads(path.read_text())
        old = _rates([(row["name"], row["exit_code"]) for row in before])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"--baseline {path}: does not contain results of a matrix ({error})") from None
    lines = []
    for name, (k, n) in _rates([(outcome.cell.name, outcome.exit_code) for outcome in done]).items():
        if name in old and n and old[name][1]:
            (low, high), (old_low, old_high) = wilson(k, n), wilson(*old[name])
            if low > old_high or high < old_low:
                lines.append(f"{name}: as expected in {k} of {n} runs, previously in {old[name][0]} of {old[name][1]}")
    return lines


def _rates(rows: Sequence[tuple[str, int]]) -> Mapping[str, tuple[int, int]]:
    """Returns name of a cell -> (number of runs as expected, number of runs with a known verdict)."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, code in rows:
        if code != EXIT_UNKNOWN:
            found[name][0] += code == 0
            found[name][1] += 1
    return {name: (k, n) for name, (k, n) in found.items()}
