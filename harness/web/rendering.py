"""Renders the pages from templates, with escaping and in the style of the run page. The pages contain no scripts."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import Any, Final

import jinja2
from markupsafe import Markup

from harness.model.values_as_text import plain
from harness.report.page import document
from harness.web import paths

PACKAGE: Final = "harness.web"
DARK: Final = re.compile(r":root\[data-theme=dark\]\{([^}]*)\}")


def _file(folder: str, name: str) -> str:
    return (resources.files(PACKAGE) / folder / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def style() -> str:
    """Returns the style sheet of the server's pages: the one of the run page, with a dark variant and additions."""
    page_css = document.asset("page.css")
    dark = DARK.search(page_css)
    colours = dark[1] if dark else ""
    switch = f"@media screen and (prefers-color-scheme:dark){{:root{{{colours}}}}}"
    return f"{page_css}\n{switch}\n{_file('assets', 'web.css')}"


@lru_cache(maxsize=1)
def policy() -> str:
    """Returns the content security policy of the pages.

    It allows the pages' own style, images of the same origin, and forms that are sent to this origin. It allows no
    scripts.
    """
    return (
        f"default-src 'none'; style-src {document.digest(style())}; img-src 'self' data:; "
        "form-action 'self'; base-uri 'none'"
    )


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _file("templates", name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    made.filters["count"] = lambda number: f"{number:,}"
    made.filters["bytes"] = size
    made.filters["segment"] = paths.segment
    return made


def _printable(value: Any) -> Any:
    """Makes unprintable characters in a text visible. Returns anything else, also markup, unchanged."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def size(number: int) -> str:
    """Formats a number of bytes with a unit."""
    if number < 1000:
        return f"{number} B"
    scaled = float(number)
    for unit in ("kB", "MB"):
        scaled /= 1000
        if scaled < 1000:
            return f"{scaled:.1f} {unit}"
    return f"{scaled / 1000:.1f} GB"


def render(template: str, root: str, static: bool, **values: Any) -> bytes:
    """Renders a page.

    root    relative path from the page to the list of runs
    static  whether the page is a file of an export
    """
    text = (
        _environment()
        .get_template(template)
        .render(root=root, static=static, style=Markup(style()), policy=policy(), **values)
    )
    return text.encode(errors="backslashreplace")
