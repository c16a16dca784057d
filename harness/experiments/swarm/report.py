"""The results of a swarm in a folder: results.json, with which it can be continued, and summary.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from harness.experiments.swarm.draw_rounds import Round
from harness.experiments.swarm.run import Done, Shrunk
from harness.model.errors_and_exit_codes import BadInput

FILE: Final = "results.json"
WHY_CHARACTERS: Final = 200


def write(folder: Path, seed: int, done: Sequence[Done], small: Mapping[str, Shrunk]) -> None:
    """Writes both files. `small`: name of a finding -> the result of shrinking its plan."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: asdict(each) for name, each in small.items()}
    content = {"seed": seed, "rounds": [asdict(each) for each in done], "shrunk": found}
    (folder / FILE).write_text(json.dumps(content, default=str, indent=1))
    (folder / "summary.md").write_text(markdown(done, small))


def read(folder: Path) -> tuple[int, list[Done], dict[str, Shrunk]] | None:
    """Returns seed, rounds and shrunk findings of an earlier swarm; None if the folder has no results.

    Raises BadInput if they cannot be read.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text())
        done = [
            Done(**{**row, "round": _round(row["round"]), "anomalies": tuple(row["anomalies"])})
            for row in content["rounds"]
        ]
        return int(content["seed"]), done, {name: Shrunk(**row) for name, row in content["shrunk"].items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: does not contain results of a swarm ({error})") from None


def _round(row: Mapping[str, Any]) -> Round:
    return Round(int(row["number"]), row["plan"], tuple(row["features"]))


def findings(done: Sequence[Done]) -> dict[str, list[Done]]:
    """Returns name of a finding -> its rounds, in the order in which the findings were first seen."""
    found: dict[str, list[Done]] = {}
    for each in done:
        if each.finding:
            found.setdefault(each.finding, []).append(each)
    return found


def counts(done: Sequence[Done]) -> str:
    """Returns the verdicts of the rounds as text, such as "12 rounds: 10 valid, 1 invalid, 1 unknown"."""
    verdicts = Counter(each.verdict for each in done)
    rounds = f"{len(done)} round{'' if len(done) == 1 else 's'}"
    return f"{rounds}: {', '.join(f'{n} {name}' for name, n in verdicts.most_common())}" if done else rounds


def markdown(done: Sequence[Done], small: Mapping[str, Shrunk]) -> str:
    """Returns the summary: the findings, the rounds that could not be judged, and all rounds."""
    lines = [f"# {counts(done)}", ""]
    found = findings(done)
    if found:
        lines += ["## Findings", "", "| finding | rounds | first run | smaller plan |", "| --- | --- | --- | --- |"]
        for name, rounds in found.items():
            plan = "" if name not in small else small[name].plan if small[name].comes_again else small[name].summary
            lines.append(f"| {_cell(name)} | {len(rounds)} of {len(done)} | {rounds[0].folder} | {_cell(plan)} |")
        lines.append("")
    unknown = [each for each in done if each.why]
    if unknown:
        lines += ["## Without a verdict", "", "| round | verdict | reason |", "| --- | --- | --- |"]
        lines += [f"| {each.round.number} | {each.verdict} | {_cell(each.why[:WHY_CHARACTERS])} |" for each in unknown]
        lines.append("")
    lines += ["## All rounds", "", "| round | verdict | anomalies | s | features |", "| --- | --- | --- | --- | --- |"]
    for each in done:
        shown, features = ", ".join(each.anomalies), "; ".join(each.round.features)
        lines.append(f"| {each.round.number} | {each.verdict} | {shown} | {each.seconds:.0f} | {_cell(features)} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
