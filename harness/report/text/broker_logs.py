"""Finds the few lines in the brokers' logs that are most relevant to given partitions and moments of a run.

Reads the collected logs/<node>/*.log. Their lines look like `[2026-11-20 15:01:37,886] LEVEL text`. The timestamps are
local times in an unknown time zone, but the start of the run is known in UTC. The time zone is therefore guessed: of
all differences from UTC in steps of 15 minutes, the one is used with which the log overlaps most with the run. At most
SCAN_MAX bytes of each file are read, from shortly before the first moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from harness.model.values_as_text import plain
from harness.stored import line_search

STAMP: Final = re.compile(rb"^\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[,.](\d{3})\]?\s+(?:(\w+)\s+)?")
SCAN_MAX: Final = 32 << 20
FILES_MAX: Final = 64
LINE_MAX: Final = 4096
TEXT_MAX: Final = 250
AROUND_NS: Final = 1_500_000_000
QUARTER_NS: Final = 900 * 1_000_000_000
ZONES: Final = range(-14 * 4, 14 * 4 + 1)
SHOWN: Final = 8
CLASS: Final = re.compile(r"\s*\([\w.$]+\)$")  # the logger's class, at the end of a line
FOLDER: Final = re.compile(r", dir=[^\]]*(?=\])| with topic id Some\([^)]*\)")

# Messages about leadership, replication and lost records: (pattern, weight).
RELEVANT: Final = (
    (re.compile(rb"[Tt]runcat(?:ing|ed) (?:to|partition)"), 6),
    (re.compile(rb"starts at leader epoch|[Ll]eader epoch|became leader|[Uu]nclean"), 4),
    (re.compile(rb"[Ss]hr(?:ink|unk)|[Ee]xpan(?:d|ding)|ISR|[Ff]enc"), 3),
    (re.compile(rb"[Aa]bort|[Tt]ransaction|[Cc]orrupt|[Rr]ecover|[Dd]elet"), 2),
    (re.compile(rb"Failed elections|shut ?down|Connection to node|Starting", re.IGNORECASE), 1),
)
# Messages that list partitions but are not relevant to any one of them.
NOISE: Final = re.compile(
    rb"has no effect|(?:Removed|Added) fetcher|Skipped the become|"
    rb"Loading producer state|Reloading from producer|Producer state rec"
)
LEVELS: Final = {b"FATAL": 3, b"ERROR": 2, b"WARN": 2}


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a broker's log. `time_ns` is the time since the start of the run."""

    time_ns: int
    node: str
    text: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to search the logs for.

    moments     (begin, end) in nanoseconds since the run began: the times at which something went wrong
    partitions  names of the partitions concerned
    """

    moments: Sequence[tuple[int, int]]
    partitions: Sequence[str]

    @property
    def begin_ns(self) -> int:
        """The time at which the search begins.

        The search has no corresponding end, because a record may be lost long after its send, for example.
        """
        return min(begin for begin, _ in self.moments) - AROUND_NS

    def close(self, time_ns: int) -> bool:
        """Returns whether a time is inside one of the moments, or at most AROUND_NS away from one."""
        return any(begin - AROUND_NS <= time_ns <= end + AROUND_NS for begin, end in self.moments)


def partition(run: str, key: Any, per_topic: int) -> str | None:
    """Returns the name of the partition that a key stands for: RUN-TOPIC-PARTITION.

    The topic is `key // per_topic` and the partition `key % per_topic`. Returns None if the key is not an integer.

    per_topic  number of partitions of each topic
    """
    return f"{run}-{key // per_topic}-{key % per_topic}" if type(key) is int and per_topic > 0 else None


def stamp_ns(line: bytes) -> int | None:
    """Returns a line's timestamp in nanoseconds since 1970, interpreting it as UTC; None if it has no timestamp."""
    found = STAMP.match(line)
    if not found:
        return None
    day, clock, milliseconds = (part.decode() for part in found.groups()[:3])
    try:
        seconds = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return int(seconds) * 1_000_000_000 + int(milliseconds) * 1_000_000


def _files(logs: Path) -> list[Path]:
    return sorted(path for path in logs.glob("*/*.log") if path.is_file())[:FILES_MAX]


def zone_ns(first_ns: int, last_ns: int, wall_ns: int, end_ns: int) -> int:
    """Guesses how far a log's timestamps are ahead of UTC, in nanoseconds.

    Returns the difference with which the log overlaps most with the run. If several are equally good, returns the one
    closest to zero.

    first_ns, last_ns  first and last timestamp of the log
    wall_ns            wall-clock time at which the run began
    end_ns             duration of the run
    """

    def covered(shift: int) -> int:
        return min(last_ns - shift, wall_ns + end_ns) - max(first_ns - shift, wall_ns)

    return max((n * QUARTER_NS for n in ZONES), key=lambda shift: (covered(shift) // 1_000_000_000, -abs(shift)))


def _ends(file: BinaryIO) -> tuple[int, int] | None:
    """Returns the first and the last timestamp of a log, or None if the log has none."""
    first = next((at for _ in range(64) if (at := stamp_ns(file.readline(LINE_MAX))) is not None), None)
    if first is None:
        return None
    size = file.seek(0, 2)
    file.seek(max(0, size - line_search.NEAR))
    last = [at for line in file.readlines(2 * line_search.NEAR) if (at := stamp_ns(line)) is not None]
    return first, max([first, *last[-1:]])


def around(logs: Path, wall_ns: int, end_ns: int, wanted: Wanted, limit: int = SHOWN) -> list[LogLine]:
    """Returns the `limit` most relevant lines, in order of time. Files that cannot be read are ignored.

    wall_ns  wall-clock time at which the run began, in nanoseconds since 1970
    end_ns   duration of the run in nanoseconds
    """
    if not wanted.moments:
        return []
    scored: list[tuple[int, LogLine]] = []
    for path in _files(logs):
        try:
            with path.open("rb") as file:
                ends = _ends(file)
                if ends is None:
                    continue
                zero = wall_ns + zone_ns(*ends, wall_ns, end_ns)
                scored += _scan(file, path.parent.name, zero, end_ns, wanted)
        except OSError:
            continue
        scored = _best(scored, limit)
    return sorted((line for _, line in scored), key=lambda line: (line.time_ns, line.node))


def _best(scored: list[tuple[int, LogLine]], limit: int) -> list[tuple[int, LogLine]]:
    """Returns the `limit` most relevant lines.

    Of several lines that differ only in their numbers, only the best two are returned, unless their score is high.
    """
    ordered = sorted(scored, key=lambda one: (-one[0], one[1].time_ns))
    times_seen: dict[str, int] = {}
    kept = []
    for score, line in ordered:
        form = re.sub(r"\d+", "0", line.text)
        times_seen[form] = times_seen.get(form, 0) + 1
        if times_seen[form] <= 2 or score >= 10:
            kept.append((score, line))
    return kept[:limit]


def _scan(file: BinaryIO, node: str, zero_ns: int, end_ns: int, wanted: Wanted) -> Iterator[tuple[int, LogLine]]:
    """Yields (score, line) of each relevant line, from where the search begins to the end of the run.

    zero_ns  the start of the run, by the clock of the log's timestamps
    """
    names = [re.compile(re.escape(name.encode()) + rb"(?!\d)") for name in wanted.partitions]
    if not line_search.seek(file, stamp_ns, wanted.begin_ns + zero_ns):
        return
    stop = file.tell() + SCAN_MAX
    while file.tell() < stop and (line := file.readline(LINE_MAX)):
        at = stamp_ns(line)
        if at is None:
            continue
        at -= zero_ns
        if at > end_ns:
            return
        score = _score(line, names, wanted.close(at))
        if score > 0:
            yield score, LogLine(at, node, _text(line))


def _score(line: bytes, names: Sequence[re.Pattern[bytes]], close: bool) -> int:
    """Returns the relevance of a line; 0 if it is irrelevant.

    A line that is not near a moment is relevant only if it names one of the partitions.

    close  whether the line is near a moment
    """
    if NOISE.search(line):
        return 0
    named = any(name.search(line) for name in names)
    found = STAMP.match(line)
    level = LEVELS.get(found.group(4) or b"", 0) if found else 0
    relevance = next((weight for pattern, weight in RELEVANT if pattern.search(line)), 0)
    if named and relevance:
        return 6 + relevance + level + 2 * close
    return (level + relevance if level else 0) if close else 0


def _text(line: bytes) -> str:
    """Returns a line without its timestamp, logger class, folders and topic ids."""
    found = STAMP.match(line)
    rest = line[found.end(3) :] if found else line
    text = plain(FOLDER.sub("", CLASS.sub("", rest.decode(errors="replace").rstrip().lstrip("] "))))
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 3] + "..."
