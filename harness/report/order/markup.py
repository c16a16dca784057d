"""Builds HTML and SVG from function calls, so that texts and attributes are always escaped."""

from __future__ import annotations

import html
from typing import Final


class Markup(str):
    """Text that is already markup. Only this module creates it."""

    __slots__ = ()


NOTHING: Final = Markup("")
VOID: Final = frozenset({"meta", "br", "link"})


def escaped(text: object) -> Markup:
    """Returns any value as escaped text. Unprintable characters are replaced by their escape sequences."""
    raw = str(text)
    if not raw.isprintable():
        raw = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in raw)
    return Markup(html.escape(raw, quote=True))


def joined(*parts: object) -> Markup:
    """Concatenates parts into one markup. Parts that are not markup are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escaped(part) for part in parts))


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Returns the element <name attributes>children</name>.

    The argument `class_` becomes the attribute class, and `stroke_width` becomes stroke-width. Attributes that are None
    are omitted. Names of elements and attributes are not escaped, so they must be constants, never data.
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
    """Rounds a coordinate to a tenth of a pixel. Returns other values unchanged."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
