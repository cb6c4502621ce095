"""A window in which a human plays an Atari game with keys."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from .errors import ConfigError
from .starts import Player

_FRAMES_A_SECOND = 60


def _pygame() -> Any:
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # pygame prints its version
            import pygame
    except ImportError as err:
        raise ConfigError(f"window: needs pygame (pip install 'paceline[play]'), or --actions must give the play: {err}") from None
    return pygame


def action(up: bool, down: bool, left: bool, right: bool, fire: bool) -> str:
    """The name of the console's action for the keys that are down. Opposite directions cancel each other."""
    name = ("UP" if up else "DOWN") if up != down else ""
    name += ("LEFT" if left else "RIGHT") if left != right else ""
    return name + "FIRE" if fire else name or "NOOP"


def play(player: Player, scale: int, played: list[str]) -> None:
    """Plays until the window is closed or Esc is pressed. Appends the action of every frame to played."""
    pygame = _pygame()
    try:
        pygame.display.init()
        rows, columns = player.console.getScreenDims()
        screen = pygame.display.set_mode((2 * columns * scale, rows * scale))
    except pygame.error as err:
        raise ConfigError(f"window: cannot be opened, --actions must give the play: {err}") from None
    try:
        clock, paused = pygame.time.Clock(), False
        while True:
            name = None
            for event in pygame.event.get():
                if event.type == pygame.QUIT or (event.type == pygame.KEYDOWN and event.key == pygame.K_ESCAPE):
                    return
                if event.type == pygame.KEYDOWN and event.key == pygame.K_p:
                    paused = not paused
                if event.type == pygame.KEYDOWN and event.key == pygame.K_r:
                    name = "RESET"
            if not paused:
                down = pygame.key.get_pressed()
                keys = (pygame.K_UP, pygame.K_DOWN, pygame.K_LEFT, pygame.K_RIGHT, pygame.K_SPACE)
                name = name or action(*(bool(down[key]) for key in keys))
                player.act(name)
                played.append(name)
            image = pygame.image.frombuffer(player.console.getScreenRGB().tobytes(), (columns, rows), "RGB")
            screen.blit(pygame.transform.scale(image, screen.get_size()), (0, 0))
            pygame.display.set_caption(f"{player.game}: {player.score} points, frame {player.frames:,}" + (", paused" if paused else ""))
            pygame.display.flip()
            clock.tick(_FRAMES_A_SECOND)
    finally:
        pygame.display.quit()
