"""Commands of the command line that have modules of their own."""

from __future__ import annotations

import json
from typing import Any

from ..errors import PacelineError


def keywords_of(items: list[str]) -> dict[str, Any]:
    """The keywords of --set. A value is parsed as JSON if possible: env_kwargs={"recipe": "mnih2015"}."""
    keywords: dict[str, Any] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise PacelineError(f"--set {item}: must be NAME=VALUE")
        try:
            keywords[name] = json.loads(value)
        except ValueError:
            keywords[name] = value
    return keywords
