"""Draws 49 Atari games after 600 frames of random play in one image.

    pip install '.[atari]' pillow    # in the checkout
    python atari_contact_sheet.py [sheet.png]

The image is the same in every run. Pixels of the Atari 2600 are twice as wide as high, and are drawn
so.
"""

import random
import sys
from pathlib import Path

from PIL import Image, ImageDraw

from paceline.atari import ALEInterface, roms

sys.path.append(str(Path(__file__).resolve().parents[2] / "python" / "benchmarks"))
from emulator import GAMES_49

FRAMES = 600
COLUMNS, WIDTH, HEIGHT, CAPTION, GAP = 7, 320, 210, 16, 8


def play(game: str) -> Image.Image:
    """Returns the screen after FRAMES frames."""
    ale = ALEInterface()
    ale.setInt("random_seed", 1)
    ale.loadROM(roms.get_rom_path(game))
    actions, rng = ale.getMinimalActionSet(), random.Random(1)
    for _ in range(FRAMES):
        ale.act(rng.choice(actions))
        if ale.game_over():
            ale.reset_game()
    return Image.fromarray(ale.getScreenRGB()).resize((WIDTH, HEIGHT), Image.Resampling.NEAREST)


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else "sheet.png"
    rows = -(-len(GAMES_49) // COLUMNS)
    sheet = Image.new("RGB", (GAP + COLUMNS * (WIDTH + GAP), GAP + rows * (HEIGHT + CAPTION + GAP)), "white")
    draw = ImageDraw.Draw(sheet)
    for i, game in enumerate(GAMES_49):
        x, y = GAP + i % COLUMNS * (WIDTH + GAP), GAP + i // COLUMNS * (HEIGHT + CAPTION + GAP)
        sheet.paste(play(game), (x, y))
        draw.text((x + WIDTH // 2, y + HEIGHT + CAPTION // 2), game, fill="black", anchor="mm")
    sheet.save(path)
    print(f"drew {path}")


if __name__ == "__main__":
    main()
