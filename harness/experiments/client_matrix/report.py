"""Writes the results of a client matrix to report.md and results.json, and reads results.json to continue."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.experiments.client_matrix.axes import FAULTS, MODES, Absent, Cell
from harness.experiments.client_matrix.programs import Program
from harness.experiments.client_matrix.run import ALLOWED, INVALID, NOT_RUN, UNKNOWN, VALID, Ran
from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, BadInput

SCHEMA: Final = 1
FILE: Final = "results.json"
WORST_FIRST: Final = (INVALID, UNKNOWN, ALLOWED, VALID, NOT_RUN)
WHY_MAX: Final = 300  # characters of a reason


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a client matrix, finished or not.

    seed      the seed of the choice of cells, and of the first run of each cell
    kafka     version of the brokers
    only      the names of the client programs that were chosen
    failed    the programs that could not be built or started: name -> reason
    design    the cells to run
    absent    the combinations of a library or fault with a mode that do not exist
    runs      the runs so far, several for a cell that was repeated
    """

    seed: int
    kafka: str
    only: tuple[str, ...]
    programs: tuple[Program, ...]
    failed: Mapping[str, str]
    design: tuple[Cell, ...]
    absent: tuple[Absent, ...]
    runs: tuple[Ran, ...]

    @property
    def run_count(self) -> int:
        return sum(ran.verdict != NOT_RUN for ran in self.runs)


def write(folder: Path, results: Results) -> None:
    """Writes report.md and results.json, each atomically, so that an interruption cannot leave an incomplete file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("report.md", document(results)), (FILE, json.dumps(data(results), default=str, indent=1))):
        part = folder / f"{name}.part"
        part.write_text(text)
        part.replace(folder / name)


def data(results: Results) -> dict[str, Any]:
    """Returns the content of results.json."""
    return {
        "schema": SCHEMA,
        "experiment": "client-matrix",
        **asdict(results),
        "design": [cell._asdict() for cell in results.design],
        "seconds": sum(ran.seconds for ran in results.runs),
    }


def continued(folder: Path) -> tuple[int, tuple[str, ...], tuple[Ran, ...]] | None:
    """Reads results.json in a folder. Returns (seed, names of the programs, runs), or None if there is no such file.

    Raises BadInput if the file does not contain results of a client matrix.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        stored = json.loads(path.read_text())
        if stored["experiment"] != "client-matrix" or stored["schema"] > SCHEMA:
            raise ValueError(f"experiment {stored['experiment']}, schema {stored['schema']}")
        runs = tuple(Ran(**each) for each in stored["runs"])
        return int(stored["seed"]), tuple(stored["only"]), runs
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"--out {folder}: it does not contain results of client-matrix ({error})") from None


def exit_code(results: Results) -> int:
    """Returns 1 if a verdict is invalid, else 2 if a verdict is unknown or something was not run, else 0."""
    verdicts = {ran.verdict for ran in results.runs}
    if INVALID in verdicts:
        return EXIT_INVALID
    missing = {ran.cell for ran in results.runs} != set(results.design) or results.failed
    return EXIT_UNKNOWN if verdicts & {UNKNOWN, NOT_RUN} or missing else EXIT_VALID


# --- Markdown ---------------------------------------------------------------------------------------------


def document(results: Results) -> str:
    """Returns the report as Markdown."""
    begun = {ran.cell for ran in results.runs if ran.verdict != NOT_RUN}
    minutes = sum(ran.seconds for ran in results.runs) / 60
    parts = [
        "# Client libraries under faults",
        f"{len(begun)} of {len(results.design)} cells in {results.run_count} runs and {minutes:.0f} minutes, on Kafka "
        f"{results.kafka}, seed {results.seed}. A field shows the worst verdict of its cells and how many of them were "
        "run; a cell is unknown if none of its runs could be judged. `-`: no such cell exists. `allowed`: anomalies "
        "that Kafka does not rule out under the settings, such as duplicates without idempotence.",
        "## By fault",
        _grid(results, list(FAULTS), lambda cell: cell.fault),
        "## By mode",
        _grid(results, list(MODES), lambda cell: cell.mode),
    ]
    sections = (
        ("Anomalies", _cells(results.runs, INVALID)),
        ("Anomalies that Kafka does not rule out under the settings", _cells(results.runs, ALLOWED)),
        ("Unknown", _cells(results.runs, UNKNOWN)),
        ("Not run", [*(f"{name}: {_short(why)}" for name, why in results.failed.items()), *_not_run(results.runs)]),
        ("Cells that do not exist", _absent(results.absent)),
        ("Libraries", [f"{each.name}: {each.library} {each.version}" for each in results.programs]),
    )
    for title, lines in sections:
        if lines:
            parts += [f"## {title}", "\n".join(f"- {line}" for line in lines)]
    return "\n\n".join(parts) + "\n"


def _grid(results: Results, columns: Sequence[str], column: Any) -> str:
    """Returns a table with a row for each library and the given columns (all faults, or all modes).

    Each field shows the worst verdict of the cells that belong to it.
    """
    lines = ["| library | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
    for name in results.only:
        fields = []
        for each in columns:
            planned = [cell for cell in results.design if cell.library == name and column(cell) == each]
            ran = [one for one in results.runs if one.cell in set(planned)]
            fields.append("not run" if name in results.failed else _field(planned, ran))
        lines.append(f"| {name} | " + " | ".join(fields) + " |")
    return "\n".join(lines)


def _field(planned: Sequence[Cell], ran: Sequence[Ran]) -> str:
    if not planned:
        return "-"
    verdicts = {_of_cell([one.verdict for one in ran if one.cell == cell]) for cell in planned}
    verdict = next(each for each in WORST_FIRST if each in verdicts)
    names = sorted({name for one in ran for name in one.anomalies if one.verdict == verdict})
    shown = f"**{verdict}** ({', '.join(names)})" if verdict == INVALID else verdict
    count = len({one.cell for one in ran if one.verdict != NOT_RUN})
    return f"{shown} {count}" if count else shown


def _of_cell(verdicts: Collection[str]) -> str:
    """Returns a cell's verdict: the worst of its runs, but unknown only if no run could be judged."""
    return next((each for each in (INVALID, ALLOWED, VALID, UNKNOWN) if each in verdicts), NOT_RUN)


def _cells(runs: Sequence[Ran], verdict: str) -> list[str]:
    """Returns a line for each cell that has runs with this verdict.

    The line has the number of these runs, the anomalies that they found, and their folders.
    """
    lines = []
    for cell in dict.fromkeys(ran.cell for ran in runs if ran.verdict == verdict):
        every = [ran for ran in runs if ran.cell == cell and ran.verdict != NOT_RUN]
        found = [ran for ran in every if ran.verdict == verdict]
        what = "; ".join(dict.fromkeys(_anomalies(ran) or _short(ran.why) for ran in found))
        folders = ", ".join(f"`{ran.folder}`" for ran in found if ran.folder)
        lines.append(f"{', '.join(cell)}: {len(found)} of {len(every)} runs: {what}{f'; {folders}' if folders else ''}")
    return lines


def _anomalies(ran: Ran) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in ran.anomalies.items())


def _not_run(runs: Iterable[Ran]) -> list[str]:
    finished = {ran.cell for ran in runs if ran.verdict != NOT_RUN}
    last = {ran.cell: ran for ran in runs if ran.verdict == NOT_RUN and ran.cell not in finished}
    return [f"{', '.join(ran.cell)}: {_short(ran.why)}" for ran in last.values()]


def _absent(found: Sequence[Absent]) -> list[str]:
    """Returns a line for each library or fault and each reason, with the modes to which the reason applies."""
    modes: dict[tuple[str, str], list[str]] = {}
    for each in found:
        modes.setdefault((each.name, each.why), []).append(each.mode)
    return [f"{name} in {', '.join(listed)}: {why}" for (name, why), listed in modes.items()]


def _short(text: str) -> str:
    return " ".join(text.split())[:WHY_MAX]
