"""Commands of the command line that have modules of their own."""

from __future__ import annotations

import difflib
import inspect
import json
import sys
from collections.abc import Callable, Mapping
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


def environment_keywords(items: list[str], call: Callable[..., Any]) -> dict[str, Any]:
    """The keywords of --set for an environment. call: the function that takes them; its other arguments are refused."""
    keywords = keywords_of(items)
    for name in keywords:
        if name in inspect.signature(call).parameters:
            raise PacelineError(f"--set {name}: not a keyword of the environment")
    return keywords


def known(keywords: Mapping[str, Any], names: list[str], what: str) -> None:
    """Raises PacelineError for a keyword of --set that is not in names. what: what has these names."""
    for name in keywords:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            raise PacelineError(f"--set {name}: not a keyword of {what}" + (f"; did you mean {near[0]}?" if near else ""))


def show(what: str, path: object, make: Callable[[], str]) -> None:
    """Makes an optional file and prints its path with make's description; prints an error instead of raising it."""
    try:
        made = make()
    except Exception as err:
        kind = "" if isinstance(err, PacelineError) else f"{type(err).__name__}: "
        print(f"{what}: left out: {kind}{err}", file=sys.stderr)
    else:
        print(f"{what}: {path} ({made})", flush=True)
