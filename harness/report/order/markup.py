"""HTML and SVG whose text and attributes are always escaped: made by calls, never by formatting."""

from __future__ import annotations

import html
from typing import Final


class Markup(str):
    """Text that is markup already. Made here only."""

    __slots__ = ()


NOTHING: Final = Markup("")
VOID: Final = frozenset({"meta", "br", "link"})


def escaped(text: object) -> Markup:
    """Any value as text that cannot become markup; what does not print is shown by its code."""
    raw = str(text)
    if not raw.isprintable():
        raw = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in raw)
    return Markup(html.escape(raw, quote=True))


def joined(*parts: object) -> Markup:
    """Parts one after the other; what is not markup is escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escaped(part) for part in parts))


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """<name attributes>children</name>. `class_` is the attribute class, `stroke_width` is stroke-width.

    An attribute None is left out. Names come from this package's code only, never from data.
    """
    attributes_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{attributes_text}>")
    return Markup(f"<{name}{attributes_text}>{joined(*children)}</{name}>")


def _short(value: object) -> object:
    """Coordinates without more digits than a screen has."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
