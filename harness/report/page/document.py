"""Renders a page as a single HTML file, with escaping and a content security policy.

Scripts and styles are part of the file. The policy contains their hashes and allows nothing else, so the browser does
not run a script that is hidden in a run's data. Data is embedded as JSON in which markup characters are escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, Final

import jinja2
import orjson
from markupsafe import Markup, escape

PACKAGE: Final = "harness.report.page"
SCRIPTS: Final = (
    "uplot/uPlot.iife.min.js",
    "base.js",
    "range.js",
    "charts.js",
    "tracks.js",
    "lanes.js",
    "strip.js",
    "graph.js",
    "page.js",
)
STYLES: Final = ("uplot/uPlot.min.css", "page.css")
ESCAPED: Final = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))
SEPARATORS: Final = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))


@lru_cache(maxsize=32)
def asset(name: str) -> str:
    """Returns the text of an asset file."""
    return (resources.files(PACKAGE) / "assets" / name).read_text(encoding="utf-8")


def as_json(data: Any) -> Markup:
    """Returns data as JSON that is safe inside a script element, because markup characters are escaped."""
    text = orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS)
    for raw, escaped in (*ESCAPED, *SEPARATORS):
        text = text.replace(raw, escaped)
    return Markup(text.decode())


def digest(text: str) -> str:
    """Returns the hash of a script or style inside a page, as written in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy(script: str, style: str) -> str:
    """Returns a content security policy that allows only this script, this style, and embedded images."""
    return (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@lru_cache(maxsize=1)
def bundle() -> tuple[str, str]:
    """Returns the script and the style that every page contains."""
    return "\n".join(map(asset, SCRIPTS)), "\n".join(map(asset, STYLES))


def beginning(template: str) -> str:
    """Returns the text with which every page of this version of the harness begins.

    The text ends with the page's content security policy, which makes browsers run only this version's script.
    """
    return _source(template).partition("{{ policy }}")[0] + f'{escape(policy(*bundle()))}">'


def _source(template: str) -> str:
    return (resources.files(PACKAGE) / "templates" / template).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["count"] = lambda number: f"{number:,}"
    return made


def render(template: str, data: Any, values: Mapping[str, Any]) -> str:
    """Renders a page from a template.

    data    values that are embedded as JSON, for the scripts
    values  variables of the template, which are always escaped
    """
    script, style = bundle()
    return (
        _environment()
        .get_template(template)
        .render(
            **values,
            data=as_json(data),
            script=Markup(script),
            style=Markup(style),
            policy=policy(script, style),
        )
    )
