"""Prints a JSON object: the pages that are made from the installed package, as Markdown. docs/hooks.py reads it."""

from __future__ import annotations

import argparse
import html
import json
import re

from paceline import cli, config


def command_line() -> str:
    """Every command with its arguments."""
    out: list[str] = []

    def walk(parser: argparse.ArgumentParser, level: int) -> None:
        name = parser.prog
        out.append(f"{'#' * level} `{name}` {{#{name.replace(' ', '-')}}}")
        out.append(escaped(parser.description or ""))
        usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
        out.append(f"```text\n{usage}\n```" if not subs(parser) else "")
        rows = [
            (invocation(a), escaped(expanded(a)))
            for a in parser._actions
            if not isinstance(a, (argparse._SubParsersAction, argparse._HelpAction))
        ]
        if rows:
            out.append("| argument | what |\n|---|---|\n" + "\n".join(f"| `{left}` | {right} |" for left, right in rows))
        for sub in subs(parser):
            walk(sub, min(level + 1, 4))

    def expanded(action: argparse.Action) -> str:
        return (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")

    walk(cli._parser(), 2)
    return "\n\n".join(part for part in out if part)


def subs(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    actions = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return [sub for action in actions for sub in action.choices.values()]


def invocation(action: argparse.Action) -> str:
    if not action.option_strings:
        return action.dest
    value = "" if action.nargs == 0 else " " + str(action.metavar or action.dest.upper())
    return ", ".join(action.option_strings) + value


def settings() -> str:
    """The settings and the presets of every method."""
    out: list[str] = []
    for method in config.methods():
        out.append(f"## {method.upper()} {{#{method}}}")
        rows = [
            f"| `{s.name}` | {s.type} | {f'`{s.default}`' if s.default else 'empty'} | {escaped(s.doc)} |" for s in config.describe(method)
        ]
        out.append("| setting | type | default | what |\n|---|---|---|---|\n" + "\n".join(rows))
        made = config.Config(method)
        presets = [
            f"| `{p.name}` | {escaped(p.doc)} | {', '.join(p.envs or ['any'])} | {f'{p.steps:,}' if p.steps else ''} |"
            for p in made.presets()
        ]
        made.close()
        out.append(f"### Presets of {method.upper()} {{#presets-{method}}}")
        out.append("| preset | what | environments | steps |\n|---|---|---|---|\n" + "\n".join(presets))
    return "\n\n".join(out)


def escaped(text: str) -> str:
    """As the cell of a table."""
    return re.sub(r"([|*_\[\]])", r"\\\1", html.escape(text, quote=False))


if __name__ == "__main__":
    print(json.dumps({"reference/command-line.md": command_line(), "reference/settings.md": settings()}))
