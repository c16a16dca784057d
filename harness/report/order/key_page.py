"""Renders the HTML page of a key, and the index of these pages. No page contains scripts or loads other files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.model.values_as_text import many, plain
from harness.report.order.flags import anchor, colour
from harness.report.order.layout import Section
from harness.report.order.marks import Mark, Suspect
from harness.report.order.markup import Markup, element, joined
from harness.report.order.picture import Picture
from harness.report.plots import fault_bands, style
from harness.stored import fault_spans

CSS: Final = """
body{font:14px/1.45 system-ui,sans-serif;color:#1a1a1a;margin:18px 22px;background:#fff}
h1{font-size:19px;margin:0 0 2px}h2{font-size:15px;margin:22px 0 6px}
p{margin:4px 0;max-width:110ch}.faint{color:#767676}a{color:#0072B2}
svg{display:block}
.scroll{overflow-x:auto;border:1px solid #e4e4e4;margin:4px 0}
g:target>text{font-weight:700}li:target{background:#fff3c4}
ol{padding-left:0;list-style:none}li{margin:5px 0;padding:2px 4px;max-width:120ch}
.key{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px;vertical-align:-1px}
.legend span{margin-right:18px;white-space:nowrap}
table{border-collapse:collapse}td,th{text-align:left;padding:3px 16px 3px 0;vertical-align:top}
""".strip()
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
HOLES: Final = Markup(
    '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>'
    '<pattern id="hole" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#fafafa"/><rect width="1.2" height="6" fill="#dcdcdc"/>'
    "</pattern></defs></svg>"
)
WITNESSES_MAX: Final = 60


@dataclass(frozen=True)
class Page:
    """The content of a key's page. A mark is what one witness of an anomaly says about this key.

    about      text about the key's partition, for the heading
    suspect    the key, with all its marks
    sections   the ranges of offsets that the page shows, in ascending order
    marks      the marks that refer to an offset in one of the sections
    texts      name of a mark -> description of its witness, for at most WITNESSES_MAX witnesses
    places     name of a mark -> the offset to which the description of its witness links
    faults     when each fault was active
    cut        whether some polls of the key were left out
    """

    run: str
    about: str
    suspect: Suspect
    sections: Sequence[Section]
    marks: Sequence[Mark]
    texts: Mapping[str, str]
    places: Mapping[str, int]
    faults: Sequence[fault_spans.Span]
    cut: bool = False


def document(title: str, *body: object) -> str:
    """Returns a complete HTML document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width"),
        element("title", title),
        element("style", Markup(CSS)),
    )
    return "<!doctype html>\n" + element("html", head, element("body", *body), lang="en") + "\n"


def render(page: Page) -> str:
    """Returns the page of a key as HTML."""
    suspect = page.suspect
    names = list(suspect.counts)
    picture = Picture(names, page.faults, frozenset(page.texts))
    title = f"key {plain(suspect.key)}"
    found = ", ".join(f"{name} ({count:,})" for name, count in suspect.counts.items())
    body: list[object] = [
        element(
            "p",
            element("a", "all keys", href="index.html"),
            "   ",
            element("a", "anomalies of this key", href="#wrong"),
        ),
        element("h1", f"{title}: offset by offset"),
        element("p", f"run {page.run}{page.about}. Witnesses for this key: {found}."),
        _legend(names, page.faults),
        HOLES,
    ]
    if page.cut:
        body.append(element("p", "This page shows and counts only some of the polls of these offsets."))
    last = -1
    for section in page.sections:
        body += [*_gap(last, section), _section(picture, section, page.marks)]
        last = section.window[1]
    body += _witnesses(page, names)
    return document(f"{title}, {page.run}", *body)


def _gap(last: int, section: Section) -> list[Markup]:
    """Returns a note about the offsets between the previous section and this one; no note if there are none.

    `last`: the last offset of the previous section.
    """
    first = next((line for line in section.lines), None)
    if first is None:
        return []
    begin = getattr(first, "offset", None)
    begin = begin if begin is not None else section.window[0]
    if begin <= last + 1:
        return []
    return [element("p", f"offsets {last + 1:,} to {begin - 1:,}: not shown", class_="faint")]


def _section(picture: Picture, section: Section, marks: Sequence[Mark]) -> Markup:
    drawn = element("div", picture.draw(section, marks), class_="scroll")
    if not section.left_out:
        return drawn
    return joined(
        drawn,
        element("p", f"{many(section.left_out, 'more column')} omitted for lack of space", class_="faint"),
    )


def _swatch(fill: str) -> Markup:
    return element("i", class_="key", style=f"background:{fill}")


def _legend(names: Sequence[str], faults: Sequence[fault_spans.Span]) -> Markup:
    parts = [element("span", _swatch(colour(names, name)), name) for name in names]
    outcomes = [(name, f"send or poll with outcome {name}") for name in ("ok", "info", "fail")]
    parts += [element("span", _swatch(style.OUTCOMES[name]), text) for name, text in outcomes]
    fault_names = list(fault_bands.lanes(faults))
    parts += [
        element("span", _swatch(fault_bands.colour(fault_names, name)), f"sent while {name} was active")
        for name in fault_names
    ]
    how = (
        "Each row is an offset with a value that was sent to it or polled from it. Each column is one pass of a "
        "process through the log: dots are the records that it polled, and lines join the records of one "
        "operation. When a process moves back to an earlier offset, a new column begins. Rings, frames and "
        "squares mark anomalies: hover over them for the names, click them for the descriptions below. "
        "Hatched rows are offsets without a known record, for example because transaction markers occupy them."
    )
    return joined(element("p", *parts, class_="legend"), element("p", how, class_="faint"))


def _witnesses(page: Page, names: Sequence[str]) -> list[Markup]:
    items = []
    for mark in page.marks:
        if mark.name not in page.texts:
            continue
        place = page.places.get(mark.name)
        link = joined(" ", element("a", f"offset {place}", href=f"#o-{place}")) if place is not None else ""
        items.append(
            element(
                "li",
                _swatch(colour(names, mark.anomaly)),
                element("b", mark.name),
                " ",
                page.texts[mark.name],
                link,
                id=anchor(mark),
            )
        )
    rest = sum(page.suspect.counts.values()) - len(items)
    more = [element("p", f"... and {rest:,} more: harness explain, harness around", class_="faint")] if rest > 0 else []
    return [element("h2", "Anomalies of this key", id="wrong"), element("ol", *items), *more]


def render_index(run: str, verdict: str, rows: Sequence[tuple[str, Suspect]], left_out: int) -> str:
    """Returns the index page as HTML.

    rows      (file name, key with its anomalies) of each page, the key with the worst anomalies first
    left_out  number of keys with anomalies but without a page
    """
    lines = [
        element(
            "tr",
            element("td", element("a", f"key {plain(suspect.key)}", href=file)),
            element("td", ", ".join(f"{name} {count:,}" for name, count in suspect.counts.items())),
        )
        for file, suspect in rows
    ]
    more = [element("p", f"{left_out:,} more keys have witnesses, but no page", class_="faint")] if left_out else []
    return document(
        f"keys of {run}",
        element("h1", f"run {run}: {verdict}"),
        element(
            "p",
            "Keys with anomalies, the worst first. Each page shows the writers and readers of every offset.",
        ),
        element("table", element("tr", element("th", "key"), element("th", "witnesses")), *lines),
        *more,
    )
