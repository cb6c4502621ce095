"""The two sides of a comparison, and the cartridges for both.

A side is a factory: `side(path, settings)` returns an ALEInterface with the cartridge
loaded. Settings are a dict by ale-py's names. The type of a value selects setInt, setFloat,
setBool or setString.
"""

import importlib
from pathlib import Path

# The 49 games of Mnih et al. (2015).
PAPER49 = """
alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider bowling boxing breakout
centipede chopper_command crazy_climber demon_attack double_dunk enduro fishing_derby freeway frostbite gopher
gravitar hero ice_hockey jamesbond kangaroo krull kung_fu_master montezuma_revenge ms_pacman name_this_game pong
private_eye qbert riverraid road_runner robotank seaquest space_invaders star_gunner tennis time_pilot tutankham
up_n_down venture video_pinball wizard_of_wor zaxxon
""".split()

# The games that make test plays.
NINE = "beam_rider breakout enduro freeway ms_pacman pong qbert seaquest space_invaders".split()

# ale-py has these images but no game for one player: loading them ends the process.
TWO_PLAYERS = ("combat", "joust", "maze_craze", "warlords")

PAL = ("adventure", "air_raid", "keystone_kapers", "king_kong", "klax", "laser_gates", "mr_do", "pacman")
PAL += ("sir_lancelot", "space_war")

SETTERS = {bool: "setBool", int: "setInt", float: "setFloat", str: "setString"}


def side(interface):
    """Returns the factory for a class with ALEInterface's methods."""

    def load(path, settings):
        console = interface()
        for name, value in settings.items():
            getattr(console, SETTERS[type(value)])(name, value)
        console.loadROM(str(path))
        return console

    load.__name__ = interface.__module__.split(".")[0]
    return load


def theirs():
    """Returns ale-py's side without log messages. Raises ImportError if ale-py is not installed."""
    ale_py = importlib.import_module("ale_py")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return side(ale_py.ALEInterface)


def ours():
    """Returns the library's side. Raises ImportError if the library has no Atari console."""
    atari = importlib.import_module("paceline.atari")
    return side(atari.ALEInterface)


def roms():
    """Returns ale-py's games as name -> path, without the games for two players."""
    folder = Path(importlib.import_module("ale_py").__file__).parent / "roms"
    return {path.stem: path for path in sorted(folder.glob("*.bin")) if path.stem not in TWO_PLAYERS}


def put(folder, cartridge):
    """Writes a test cartridge to its own folder, under its host's name, and returns the path."""
    path = Path(folder) / f"{cartridge.kind}-{cartridge.seed}" / f"{cartridge.host}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cartridge.image)
    return path
