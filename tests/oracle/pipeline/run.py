"""A simulated run of a pipeline with the drawn lies in it: its files, and which anomalies the lies are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.model.randomness import Draw
from harness.model.transforms import outputs
from harness.pipeline_app.ports import Options
from harness.sim.pipeline.run import files, simulate
from tests.oracle.pipeline.case import PipelineCase

READ, SENT, COMMITTED = "pipeline/read-0.jsonl", "pipeline/sent-0.jsonl", "pipeline/committed.json"
FAR = 1_000_000  # offsets of what the lies append, and ids that no writer used
Row = dict[str, Any]
Files = dict[str, list[Row]]


@dataclass(slots=True)
class PipelineRun:
    """files: what the run left, before anything of it is cut away; lies: the anomalies that were put into it."""

    case: PipelineCase
    files: Files
    draw: Draw
    lies: set[str] = field(default_factory=set)
    appended: int = FAR

    # --- the topics, as the final reading gives them ---

    def rows(self, side: str) -> list[Row]:
        return [row for row in self.files[READ] if row.get("side") == side]

    def shown(self) -> list[Row]:
        return [row for row in self.rows("output") if row["committed"]]

    def done(self) -> list[Row]:
        """Input records that the group has committed."""
        return [row for row in self.rows("input") if row["offset"] < self.committed.get(place(row), 0)]

    @property
    def committed(self) -> dict[str, int]:
        offsets: dict[str, int] = self.files[COMMITTED][0]["offsets"]
        return offsets

    def append(self, row: Row) -> None:
        """One more record of a topic, behind all others."""
        self.appended += 1
        self.files[READ].insert(0, {**row, "offset": self.appended})

    def remove(self, row: Row) -> None:
        self.files[READ] = [each for each in self.files[READ] if each is not row]


def place(row: Row) -> str:
    return f"{row['topic']}/{row['partition']}"


def simulated(case: PipelineCase) -> PipelineRun:
    options = Options(mode=case.mode, transform=case.transform, mistake=case.mistake or None, abort_p=case.abort_p)
    content = files(simulate(options, case.seed, case.turns, case.eager))
    run = PipelineRun(case, content, Draw.of(case.seed, "oracle-pipeline-lies", 0))
    for what in sorted(case.again, key=lambda what: what == "not committed"):  # what follows is not committed either
        _sent_again(run, what)
    for lie in case.lies:
        LIED[lie](run)
    return run


# --- input records that their writer sent again ---------------------------------------------------------


def _sent_again(run: PipelineRun, what: str) -> None:
    """A retry without sequence numbers appends a record a second time. The pipeline knows nothing of retries: it
    makes the outputs of both."""
    made = {row["id"] for row in run.shown()}
    once = [row for row in run.done() if row["id"] in made and row["offset"] < FAR]
    if not once:
        return
    first = run.draw.choice(once)
    earlier = [row for row in run.shown() if row["id"] == first["id"]]
    run.append(first)
    second = run.appended
    if what == "not committed":
        return
    run.committed[place(first)] = max(second + 1, run.committed[place(first)])
    keys = [row for row in run.rows("input") if row["key"] == first["key"] and place(row) == place(first)]
    again = [
        {**earlier[0], "n": n} for n, _, _ in outputs(run.case.transform, first["id"], first["key"], len(keys) - 1)
    ]
    if what in ("first made", "none made"):
        again = []
    if what == "second damaged":
        again = [{**row, "key": row["key"] + 1} for row in again]
    for row in again * (2 if what == "second made twice" else 1):
        run.append(row)
    if what in ("second made", "none made"):
        for row in earlier:
            run.remove(row)
    happened = {"first made": "missing", "second made": "missing", "none made": "missing"}
    happened |= {"second made twice": "duplicate", "second damaged": "wrong"}
    if what in happened:
        run.lies.add(happened[what])


# --- what brokers and instances do wrong ----------------------------------------------------------------


def _lose_output(run: PipelineRun) -> None:
    done = {row["id"] for row in run.done()}
    once = [row for row in run.shown() if row["id"] in done]
    if once:
        run.remove(run.draw.choice(once))
        run.lies.add("missing")


def _double_output(run: PipelineRun) -> None:
    if rows := run.shown():
        run.append(run.draw.choice(rows))
        run.lies.add("duplicate")


def _show_aborted(run: PipelineRun) -> None:
    if hidden := [row for row in run.rows("output") if not row["committed"]]:
        run.draw.choice(hidden)["committed"] = True
        run.lies |= {"aborted", "duplicate", "uncommitted", "reordered", "wrong"}


def _hide_committed(run: PipelineRun) -> None:
    done = {row["id"] for row in run.done()}
    once = [row for row in run.shown() if row["id"] in done]
    if once:
        run.draw.choice(once)["committed"] = False
        run.lies.add("missing")


def _swap_outputs(run: PipelineRun) -> None:
    rows = run.shown()
    if not rows:
        return
    one = run.draw.choice(rows)
    others = [row for row in rows if (row["key"], place(row)) == (one["key"], place(one)) and row["id"] != one["id"]]
    if others:
        other = run.draw.choice(others)
        one["offset"], other["offset"] = other["offset"], one["offset"]
        run.lies.add("reordered")


def _wrong_key(run: PipelineRun) -> None:
    if rows := run.shown():
        run.draw.choice(rows)["key"] += 1
        run.lies |= {"wrong", "reordered"}


def _wrong_number(run: PipelineRun) -> None:
    if rows := run.shown():
        run.draw.choice(rows)["n"] += 1000
        run.lies |= {"wrong", "missing", "reordered"}


def _phantom_output(run: PipelineRun) -> None:
    if rows := run.shown():
        row = run.draw.choice(rows)
        run.append({**row, "id": FAR + run.appended})
        run.lies.add("phantom-output")


def _lose_input(run: PipelineRun) -> None:
    if rows := run.rows("input"):
        run.remove(run.draw.choice(rows))
        run.lies |= {"lost-input", "phantom-output", "missing", "duplicate"}


def _delete_head(run: PipelineRun) -> None:
    """Of one partition all below an offset is deleted, which the pipeline has worked on."""
    if rows := run.done():
        last = run.draw.choice(rows)
        for row in run.rows("input"):
            if place(row) == place(last) and row["offset"] <= last["offset"]:
                run.remove(row)
        run.lies |= {"lost-input", "phantom-output", "duplicate"}


def _phantom_input(run: PipelineRun) -> None:
    if lines := run.files[SENT]:
        run.draw.choice(lines)["outcome"] = "fail"
        run.lies.add("phantom-input")


def _forget_commits(run: PipelineRun) -> None:
    """The group's offset of a partition goes back, and outputs of what follows are shown."""
    if rows := run.done():
        row = run.draw.choice(rows)
        run.committed[place(row)] = row["offset"]
        run.lies |= {"uncommitted"}


LIED: dict[str, Callable[[PipelineRun], None]] = {
    "lose-output": _lose_output,
    "double-output": _double_output,
    "show-aborted": _show_aborted,
    "hide-committed": _hide_committed,
    "swap-outputs": _swap_outputs,
    "wrong-key": _wrong_key,
    "wrong-number": _wrong_number,
    "phantom-output": _phantom_output,
    "lose-input": _lose_input,
    "delete-head": _delete_head,
    "phantom-input": _phantom_input,
    "forget-commits": _forget_commits,
}


# --- how it is recorded ----------------------------------------------------------------------------------


def recorded(run: PipelineRun) -> Files:
    """The files without what is cut away."""
    content, cut = dict(run.files), run.case.cut
    if cut == "behind":
        content[READ] = [*content[READ][:-1], {**content[READ][-1], "caught_up": False}]
    elif cut == "no ending":
        content[READ] = content[READ][:-1]
    elif cut == "no reading":
        del content[READ]
    elif cut == "no sends":
        del content[SENT]
    elif cut == "no offsets":
        del content[COMMITTED]
    elif cut == "bad line":
        content[READ] = [{"side": "input", "topic": "in", "partition": "zero"}, *content[READ]]
    return content
