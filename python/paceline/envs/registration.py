"""The ids under which Gymnasium knows the library's environments.

    import gymnasium, paceline

    gymnasium.make_vec("paceline/Pong-v0", num_envs=8, vectorization_mode="vector_entry_point")
    gymnasium.make("paceline/CartPole-v1")

Importing paceline registers them without importing Gymnasium or loading the library. Gymnasium does
not look for plugins, so the ids are registered at once if Gymnasium is imported already, and else
by an import hook, which removes itself, when Gymnasium is imported.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # type checkers treat this name as typing.TYPE_CHECKING; no import is needed
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

# test_registration.py compares these names with the library's.
CLASSIC = (
    "CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "MountainCarContinuous-v0", "Catch-v0", "Bricks-v0",
    "Mini-Asterix-v0", "Mini-Breakout-v0", "Mini-Freeway-v0", "Mini-Seaquest-v0", "Mini-SpaceInvaders-v0",
)  # fmt: skip
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
    """Registers all ids, once."""
    from gymnasium.envs.registration import register as add, registry

    for name, version in [(name, "") for name in CLASSIC] + [(game, "-v0") for game in ATARI]:
        id = f"paceline/{name}{version}"
        if id not in registry:
            add(id=id, entry_point=f"{__name__}:_single", vector_entry_point=f"{__name__}:_vector", kwargs={"name": name})


def register_with_gymnasium() -> None:
    """Registers all ids now if Gymnasium is imported, else when it is imported."""
    # The hook is installed first: another thread may import Gymnasium before the check.
    if _Hook not in sys.meta_path:
        sys.meta_path.insert(0, _Hook)
    if sys.modules.get(_REGISTRY) is not None:
        _Hook.done()


_REGISTRY = "gymnasium.envs.registration"  # the module of Gymnasium's registry; gymnasium always imports it


class _Hook:
    """A finder in sys.meta_path that registers the ids after the other finders have loaded Gymnasium's registry."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _REGISTRY:
            return None
        for finder in sys.meta_path:
            find = None if finder is cls else getattr(finder, "find_spec", None)
            found: ModuleSpec | None = find(name, path, target) if find else None
            if found:
                if hasattr(found.loader, "exec_module"):
                    found.loader = _Loader(found.loader)  # type: ignore[assignment]
                return found
        return None

    @classmethod
    def done(cls) -> None:
        """Registers the ids and removes the hook."""
        register()
        # A new list: removing an entry would make another thread's import skip the next finder.
        sys.meta_path = [finder for finder in sys.meta_path if finder is not cls]


class _Loader:
    """Loads the module with its own loader, the only one that the module sees, and then registers the ids."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _Hook.done()  # after a failed import the hook stays


def spec(name: str) -> Any:
    """Gymnasium's spec of a built-in environment, such as "Pong" or "atari/pong", or None."""
    from gymnasium.envs.registration import registry

    if name.startswith("atari/"):
        name = camel(name.removeprefix("atari/"))
    return registry.get(f"paceline/{name}") or registry.get(f"paceline/{name}-v0")


def camel(game: str) -> str:
    """A game's name in ids: "SpaceInvaders" for "space_invaders"."""
    return "".join(word[:1].upper() + word[1:] for word in game.split("_"))


# Functions instead of the classes, because Gymnasium's make also has an argument named id.


def _single(name: str, **keywords: Any) -> Any:
    from .single import Env

    return Env(name, **keywords)


def _vector(name: str, **keywords: Any) -> Any:
    from .vec import make_vec

    return make_vec(name, **keywords)
