"""Draws one window of a key as an SVG: writers on the left, and on the right a column for each pass of a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.model.values_as_text import many, plain, seconds
from harness.report.order.flags import Flagged, anchor, colour, flag
from harness.report.order.layout import Hole, Line, Pass, Section
from harness.report.order.marks import Mark
from harness.report.order.markup import NOTHING, Markup, element, joined
from harness.report.plots import fault_bands, style
from harness.stored import fault_spans
from harness.stored.operations_and_records import Row

ROW: Final = 17
TOP: Final = 96
OFFSET_X: Final = 62
FLAG_X: Final = 70
FLAG: Final = 11
VALUE_W: Final = 92
WRITER_W: Final = 306
READS_W: Final = 62
STEP: Final = 15
VALUE_MAX: Final = 12
CSS: Final = """
svg{font:12px system-ui,sans-serif}text{fill:#1a1a1a}.h,.faint{fill:#767676}.r{text-anchor:end}
.n{font-variant-numeric:tabular-nums}.t{font-size:11.5px}.bad{fill:#B3261E}.grid{stroke:#efefef}
.next{stroke:#9a9a9a;stroke-dasharray:2 2;fill:none}.dot{stroke-width:7;stroke-linecap:round;fill:none}
""".strip().replace("\n", "")


class Picture:
    """Draws the sections of one page. A section is a window of a key's offsets.

    names   the anomalies of the page
    faults  when each fault was active
    listed  names of the marks whose witnesses are described on the page
    """

    def __init__(self, names: Sequence[str], faults: Sequence[fault_spans.Span], listed: frozenset[str]) -> None:
        self._names, self._faults, self._listed = names, faults, listed
        self._fault_names = list(fault_bands.lanes(faults))
        self._value_x = FLAG_X + FLAG * min(max(len(names), 1), 6) + 6
        self._writer_x = self._value_x + VALUE_W
        self._reads_x = self._writer_x + WRITER_W
        self._passes_x = self._reads_x + READS_W

    def draw(self, section: Section, marks: Sequence[Mark]) -> Markup:
        """Returns the SVG of a section."""
        flagged = flag(section, marks)
        width = self._passes_x + max(STEP * len(section.passes) + 40, 200)
        height = TOP + ROW * len(section.lines) + 8
        y_of: dict[tuple[int, str], float] = {}
        for number, line in enumerate(section.lines):
            if isinstance(line, Line):
                y_of[line.offset, repr(line.value)] = TOP + ROW * (number + 0.5)
        parts = [element("style", Markup(CSS)), self._headings(), *self._columns(section)]
        anchored: set[int] = set()
        for number, line in enumerate(section.lines):
            y = TOP + ROW * number
            if isinstance(line, Hole):
                parts.append(self._hole(line, y))
            else:
                line_marks = flagged.lines.get((line.offset, repr(line.value)), ())
                place = f"o-{line.offset}" if line.offset not in anchored else None
                anchored.add(line.offset)
                parts.append(self._line(line, y, width, line_marks, flagged, place))
        parts += [self._pass(one, n, y_of, flagged) for n, one in enumerate(section.passes)]
        low, high = section.window
        return element(
            "svg",
            *parts,
            viewBox=f"0 0 {width} {height}",
            width=width,
            height=height,
            role="img",
            aria_label=f"offsets {low} to {high}",
            xmlns="http://www.w3.org/2000/svg",
        )

    # --- the left half ------------------------------------------------------------------------------

    def _headings(self) -> Markup:
        y = TOP - 8
        return joined(
            element("text", "offset", x=OFFSET_X, y=y, class_="h r"),
            element("text", "value", x=self._value_x, y=y, class_="h"),
            element("text", "written by", x=self._writer_x, y=y, class_="h"),
            element("text", "polled", x=self._reads_x + READS_W - 14, y=y, class_="h r"),
            element("text", "passes of readers: process, start", x=self._passes_x, y=12, class_="h"),
        )

    def _line(
        self, line: Line, y: float, width: float, marks: Sequence[Mark], flagged: Flagged, place: str | None
    ) -> Markup:
        parts = []
        if marks:
            tint = colour(self._names, marks[0].anomaly)
            parts.append(element("rect", x=0, y=y, width=width, height=ROW, fill=tint, fill_opacity="0.10"))
        base, short = y + ROW - 5, _short(line.value)
        parts += [
            element("text", line.offset, x=OFFSET_X, y=base, class_="n r"),
            *self._flags(marks, y),
            element("text", _title(plain(line.value)), short, x=self._value_x, y=base, class_="n"),
            self._writer(line, y, flagged),
            self._reads(line, base),
        ]
        return element("g", *parts, id=place)

    def _flags(self, marks: Sequence[Mark], y: float) -> list[Markup]:
        """Returns a small square for each anomaly in `marks`, with a link to a witness's description if possible."""
        by_name: dict[str, list[Mark]] = {}
        for mark in marks:
            by_name.setdefault(mark.anomaly, []).append(mark)
        found = []
        for number, (name, mine) in enumerate(list(by_name.items())[:6]):
            text = ", ".join(mark.name for mark in mine[:8]) + (" ..." if len(mine) > 8 else "")
            x, size = FLAG_X + FLAG * number, FLAG - 2
            fill = colour(self._names, name)
            box = element("rect", _title(text), x=x, y=y + 4, width=size, height=size, rx=2, fill=fill)
            found.append(self._to(mine, box))
        return found

    def _to(self, marks: Sequence[Mark], inner: Markup) -> Markup:
        """Returns `inner` as a link to the first of the marks that is described on the page; unchanged if none is."""
        target = next((anchor(mark) for mark in marks if mark.name in self._listed), None)
        return element("a", inner, href=f"#{target}") if target else inner

    def _writer(self, line: Line, y: float, flagged: Flagged) -> Markup:
        base, x = y + ROW - 5, self._writer_x
        if not line.writers:
            return element("text", "no known send", x=x + 14, y=base, class_="t bad")
        row = line.writers[0]
        parts = [self._fault(row, y)]
        marks = flagged.sends.get((row.op, repr(line.value)), ())
        if marks:
            parts.append(
                element(
                    "rect",
                    x=x - 3,
                    y=y + 1,
                    width=WRITER_W - 14,
                    height=ROW - 2,
                    rx=4,
                    fill="none",
                    stroke=colour(self._names, marks[0].anomaly),
                    stroke_width="1.6",
                )
            )
        f = "txn" if row.txn else "send"
        done = row.complete_ns if row.complete_ns is not None else row.invoke_ns
        more = f" and {len(line.writers) - 1} more" if len(line.writers) > 1 else ""
        unlocated = "" if row.offset is not None else " (no offset)"
        text = f"process {row.process}, {f} {row.type}, {done / 1e9:.3f} s, op {row.op}{more}{unlocated}"
        title = f"{text}: value {plain(line.value)} at offset {line.offset}, from {seconds(row.invoke_ns)}"
        parts += [
            element("rect", x=x + 1, y=y + 4, width=9, height=9, fill=style.OUTCOMES[row.type]),
            element("text", text, x=x + 14, y=base, class_="t"),
        ]
        return self._to(marks, element("g", _title(title), *parts))

    def _fault(self, row: Row, y: float) -> Markup:
        """Returns a coloured strip at height `y` if a fault was active during the send in `row`, else an empty text."""
        end = row.complete_ns if row.complete_ns is not None else row.invoke_ns
        on = fault_spans.during(self._faults, row.invoke_ns, end)
        if not on or on[0].fault not in self._fault_names:
            return NOTHING
        fill = fault_bands.colour(self._fault_names, on[0].fault)
        names = " and ".join(span.label for span in on)
        x = self._writer_x - 9
        return element("rect", _title(f"while {names} was active"), x=x, y=y, width=4, height=ROW, fill=fill)

    def _reads(self, line: Line, base: float) -> Markup:
        acknowledged = any(row.type == "ok" for row in line.writers)
        text = f"{line.readers:,} ×" if line.readers else "never"
        style_ = "t r bad" if not line.readers and acknowledged else "t r"
        return element("text", text, x=self._reads_x + READS_W - 14, y=base, class_=style_)

    def _hole(self, hole: Hole, y: float) -> Markup:
        one = hole.begin == hole.end
        text = f"no known record at {hole.begin}" + ("" if one else f" to {hole.end}")
        wide = self._passes_x - 18
        return joined(
            element("rect", x=6, y=y + 2, width=wide, height=ROW - 4, fill="url(#hole)"),
            element("text", text, x=self._value_x, y=y + ROW - 5, class_="t faint"),
        )

    # --- the right half -----------------------------------------------------------------------------

    def _columns(self, section: Section) -> list[Markup]:
        found = []
        bottom = TOP + ROW * len(section.lines)
        for number, one in enumerate(section.passes):
            x = self._passes_x + STEP * number + STEP / 2
            found.append(element("line", x1=x, y1=TOP, x2=x, y2=bottom, class_="grid"))
            began = one.begin_ns / 1e9
            text = f"{one.process}   {began:.{1 if began >= 10 else 2}f} s"
            found.append(
                element("text", text, x=x + 3, y=TOP - 8, class_="t", transform=f"rotate(-58 {x + 3:g} {TOP - 8})")
            )
        return found

    def _pass(self, one: Pass, number: int, y_of: Mapping[tuple[int, str], float], flagged: Flagged) -> Markup:
        x = self._passes_x + STEP * number + STEP / 2
        parts: list[Markup] = []
        rings: list[Markup] = []
        before: float | None = None
        for run in one.runs():
            ys = [y for row in run if (y := y_of.get((row.offset or 0, repr(row.value)))) is not None]
            if not ys:
                continue
            if before is not None:
                parts.append(element("path", d=f"M{x:g} {before:g}V{ys[0]:g}", class_="next"))
            before = ys[-1]
            dots = "".join(f"M{x:g} {y:g}h0" for y in ys)
            fill = style.OUTCOMES[run[0].type]
            parts.append(
                element(
                    "g",
                    _title(_run_text(one, run)),
                    element("path", d=f"M{x:g} {ys[0]:g}V{ys[-1]:g}", stroke=fill, stroke_width="1.6"),
                    element("path", d=dots, stroke=fill, class_="dot"),
                )
            )
            for row in run:
                marks = flagged.polls.get((row.op, row.offset or 0), ())
                y = y_of.get((row.offset or 0, repr(row.value)))
                if marks and y is not None:
                    rings.append(self._ring(marks, row, x, y))
        return joined(*parts, *rings)

    def _ring(self, marks: Sequence[Mark], row: Row, x: float, y: float) -> Markup:
        names = ", ".join(mark.name for mark in marks[:8])
        title = _title(f"{names}: value {plain(row.value)} at offset {row.offset}, polled by op {row.op}")
        ring = element(
            "circle",
            title,
            cx=x,
            cy=y,
            r="6.2",
            fill="white",
            fill_opacity="0.01",
            stroke=colour(self._names, marks[0].anomaly),
            stroke_width="2.2",
        )
        return self._to(marks, ring)


def _title(text: str) -> Markup:
    return element("title", text)


def _short(value: Any) -> str:
    text = plain(value)
    return text if len(text) <= VALUE_MAX else text[: VALUE_MAX - 1] + "…"


def _run_text(one: Pass, run: Sequence[Row]) -> str:
    first, last = run[0], run[-1]
    done = seconds(first.complete_ns if first.complete_ns is not None else first.invoke_ns)
    where = f"offset {first.offset}" if len(run) == 1 else f"offsets {first.offset} to {last.offset}"
    count = many(len(run), "record")
    return f"process {one.process} polled {count} here, {where}: op {first.op}, {first.type}, {done}"
