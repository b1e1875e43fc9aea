"""Write what is made from the routes: `docs/reference/openapi.json`, and the lower part of `docs/reference/http.md`.

.venv/bin/python scripts/reference.py [--check]     --check: change nothing, 1 when they would change
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from kranzq.server.openapi import document, statuses_of, tag_of  # noqa: E402 - the path comes first
from kranzq.server.routing import Route  # noqa: E402
from kranzq.server.table import ROUTES  # noqa: E402

MARK = "<!-- What follows is written by scripts/reference.py. -->"
JSON, PAGE = "docs/reference/openapi.json", "docs/reference/http.md"


def main(*words: str) -> int:
    """Write the two files, or say whether they would change."""
    with open(os.path.join(ROOT, PAGE), encoding="utf-8") as file:
        head, mark, _ = file.read().partition(MARK)
    if not mark:
        sys.exit(f"{PAGE} has lost its mark: {MARK}")
    wanted = {PAGE: head + mark + "\n\n" + "\n".join(page(ROUTES)), JSON: openapi(ROUTES)}
    stale = [name for name, text in wanted.items() if _read(name) != text]
    if "--check" in words:
        for name in stale:
            print(f"{name} is not what the routes say; type: .venv/bin/python scripts/reference.py")
        return 1 if stale else 0
    for name in stale:
        with open(os.path.join(ROOT, name), "w", encoding="utf-8") as file:
            file.write(wanted[name])
        print(f"{name} was written")
    return 0


def openapi(routes: tuple[Route, ...]) -> str:
    """The document as a file; its version is left out, since a release must not change it."""
    made = json.loads(json.dumps(document(routes)))
    made["info"]["version"] = "see /openapi.json"
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def page(routes: tuple[Route, ...]) -> Iterator[str]:
    """The lines of the page."""
    schemas = document(routes)["components"]["schemas"]
    for tag in dict.fromkeys(tag_of(one) for one in routes):
        yield f"## {tag[0].upper()}{tag[1:]}\n"
        yield "| route | scope | | said | answers |\n|---|---|---|---|---|"
        for route in (one for one in routes if tag_of(one) == tag):
            statuses = ", ".join(str(one) for one in statuses_of(route) if one in {200, *route.statuses})
            scope = "none" if route.scope is None else route.scope.value + (", agent" if route.needs_agent else "")
            answer = f"{statuses}: {_type(route.answer, route.media)}"
            yield f"| `{route.method} {route.path}` | {scope} | {route.summary} | {_said(route, schemas)} | {answer} |"
        yield ""
    yield "## Types\n"
    for name, schema in sorted(schemas.items()):
        if "properties" not in schema:
            continue
        yield f"### {name}\n"
        yield f"{schema.get('description', '')}\n"
        yield "| field | | |\n|---|---|---|"
        for field, one in schema["properties"].items():
            needed = "" if field in schema.get("required", []) or "default" not in one else _default(one["default"])
            yield f"| `{field}` | {_kind(one)}{needed} | {one.get('description', '')}{_range(one)} |"
        yield ""


def _said(route: Route, schemas: dict[str, Any]) -> str:
    parts = []
    if route.query is not None:
        parts.append(f"query: {', '.join(f'`{name}`' for name in schemas[route.query.__name__]['properties'])}")
    if route.body is not None:
        parts.append(("perhaps " if route.body_optional else "") + _type(route.body, ""))
    return "; ".join(parts)


def _type(kind: object, media: str) -> str:
    name = getattr(kind, "__name__", "")
    return (
        f"[{name}](#{name.lower()})" if isinstance(kind, type) and hasattr(kind, "__struct_fields__") else f"`{media}`"
    )


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    return str(schema.get("type", "anything"))


def _default(value: object) -> str:
    return f", default `{json.dumps(value)}`"


def _range(schema: dict[str, Any]) -> str:
    known = {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "maxLength": "at most {} bytes",
        "maxItems": "at most {}",
    }
    found = ", ".join(text.format(schema[name]) for name, text in known.items() if name in schema)
    return f" {found[0].upper()}{found[1:]}." if found else ""


def _read(name: str) -> str:
    try:
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
