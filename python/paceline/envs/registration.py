"""The ids under which Gymnasium knows the library's environments.

    import gymnasium, paceline

    gymnasium.make_vec("paceline/Pong-v0", num_envs=8, vectorization_mode="vector_entry_point")
    gymnasium.make("paceline/CartPole-v1")

Importing paceline registers them, which loads nothing of it, the library least of all.
"""

from __future__ import annotations

from typing import Any

# test_registration.py compares these with the library's.
CLASSIC = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Catch-v0", "Bricks-v0")
ATARI = """
    Adventure AirRaid Alien Amidar Assault Asterix Asteroids Atlantis Atlantis2 Backgammon BankHeist BasicMath
    BattleZone BeamRider Berzerk Blackjack Bowling Boxing Breakout Carnival Casino Centipede ChopperCommand CrazyClimber
    Crossbow Darkchambers Defender DemonAttack DonkeyKong DoubleDunk Earthworld ElevatorAction Enduro Entombed Et
    FishingDerby FlagCapture Freeway Frogger Frostbite Galaxian Gopher Gravitar Hangman HauntedHouse Hero
    HumanCannonball IceHockey Jamesbond JourneyEscape Kaboom Kangaroo KeystoneKapers KingKong Klax Koolaid Krull
    KungFuMaster LaserGates LostLuggage MarioBros MiniatureGolf MontezumaRevenge MrDo MsPacman NameThisGame Othello
    Pacman Phoenix Pitfall Pitfall2 Pong Pooyan PrivateEye Qbert Riverraid RoadRunner Robotank Seaquest SirLancelot
    Skiing Solaris SpaceInvaders SpaceWar StarGunner Superman Surround Tennis Tetris TicTacToe3d TimePilot Trondead
    Turmoil Tutankham UpNDown Venture VideoCheckers VideoChess VideoCube VideoPinball WizardOfWor WordZapper YarsRevenge
    Zaxxon
""".split()


def register() -> None:
    """Registers all ids, unless it is done."""
    from gymnasium.envs.registration import register as add, registry

    for name, version in [(name, "") for name in CLASSIC] + [(game, "-v0") for game in ATARI]:
        id = f"paceline/{name}{version}"
        if id not in registry:
            add(id=id, entry_point=f"{__name__}:_single", vector_entry_point=f"{__name__}:_vector", kwargs={"name": name})


def spec(name: str) -> Any:
    """What Gymnasium has for one of the library's names ("atari/pong" too), or None."""
    from gymnasium.envs.registration import registry

    if name.startswith("atari/"):
        name = camel(name.removeprefix("atari/"))
    return registry.get(f"paceline/{name}") or registry.get(f"paceline/{name}-v0")


def camel(game: str) -> str:
    """The name that goes into ids, "SpaceInvaders", of a game's own, "space_invaders"."""
    return "".join(word[:1].upper() + word[1:] for word in game.split("_"))


# Not the classes themselves: Gymnasium's make has an argument id of its own.


def _single(name: str, **keywords: Any) -> Any:
    from .single import Env

    return Env(name, **keywords)


def _vector(name: str, **keywords: Any) -> Any:
    from .vec import make_vec

    return make_vec(name, **keywords)
