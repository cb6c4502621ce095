"""Vector environments: the library's own, and any that is written in Python.

    import paceline

    envs = paceline.make_vec("Pong", num_envs=8)
    obs, infos = envs.reset(seed=1)
    obs, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())

make_vec is the way in; the environments follow Gymnasium's VectorEnv.
"""

from __future__ import annotations

import copy as copying
from typing import Any

from .. import _lib
from ..errors import ConfigError, notice
from . import _ids, registration
from .vec_env import VecEnv

__all__ = ["VecEnv", "library_name", "load_env", "make_vec", "names"]


def make_vec(
    id: Any,
    num_envs: int = 1,
    *,
    batch_size: int = 0,
    num_threads: int = 0,
    thread_affinity_offset: int = -1,
    autoreset_mode: Any = "next_step",
    copy: bool = True,
    render_mode: str | None = None,
    workers: int | None = None,
    context: str | None = None,
    waits: bool | None = None,
    **env_kwargs: Any,
) -> Any:
    """num_envs environments as a gymnasium.vector.VectorEnv.

    id: of the library's environments: "CartPole-v1", "Catch-v0", ..., an Atari game ("Pong",
        "SpaceInvaders" or "atari/space_invaders", whose ROM must be there), also with Gymnasium's
        prefix ("paceline/Pong-v0"), or what load_env returned. They are stepped by threads.
        Else the id of an environment of Gymnasium's, or a function that makes one, or a list of
        num_envs such functions: these are stepped one after another by the caller's process, or
        by worker processes where workers asks for them; see paceline.workers.
    batch_size: environments whose rows recv returns, 0 for all.
    num_threads: threads that step them, 0 for one per core. Results are the same for any number.
    thread_affinity_offset: the core that the first of these threads is bound to, -1 for none.
    autoreset_mode: "next_step", "same_step", "disabled" or a member of
        gymnasium.vector.AutoresetMode: what happens to an environment whose episode has ended.
        It is in metadata["autoreset_mode"].
    copy: False for arrays that the next step, recv or reset writes again. By default they stay
        as they are; neither costs a copy.
    render_mode: "rgb_array" for render() to return images.
    workers: worker processes that step environments of Python's, 0 for one per core (one per
        environment with waits); None: the caller's process steps them. Processes pay where a step
        takes longer than a message to a process does, tens of microseconds.
    context: how worker processes begin, "spawn" (None) or "fork".
    waits: True where steps mostly wait, for a device, a clock or another program, and compute
        little: each environment then has a thread (up to 1024, whatever num_threads is) of its own,
        so that all wait at the same time; of Python's, with workers=0, a process. A DQN
        whose env_kwargs have it, too, computes meanwhile. None: as the environment itself says
        (in C PACELINE_ENV_WAITS); of Python's False. Results are the same.

    Keywords of every environment of the library's:

    decorrelation_steps (0): the first episode after a seed begins behind 0 to so many random
        steps, so that environments are not in lockstep (Stooke & Abbeel 2018).

    Keywords of Atari games. Those of ale_py's AtariVectorEnv have its names and mean the same,
    with one exception: episodic_life goes on with the game.

    recipe ("ale"): what all the others are by default: "ale" (AtariVectorEnv's), "mnih2015",
        "machado2018", "sb3" or "stooke_abbeel". Its name, with what was changed of it, and a hash of
        all values are in infos["recipe"] and infos["recipe_hash"]. "sb3" is what Stable-Baselines3's
        make_atari_env and VecFrameStack(4) make of a NoFrameskip-v4 game, step for step: FIRE and the
        game's third action last frameskip frames each before an episode, a lost life is followed by
        frameskip frames of NOOP. reset() begins a game, where its wrappers would go on with one;
        rewards and frames of a reset are not in an episode's return and length, where
        its Monitor, which counts frames, has them.
    obs_type ("grayscale"): or "rgb" [stack, height, width, 3], or "ram" [128] ([stack, 128] with
        stack_num above 1). grayscale (True): False is obs_type="rgb".
    img_height, img_width (84), stack_num (4): of an observation; frames before an episode are 0.
    frameskip (4): frames that an action lasts. maxpool (True): observe the brighter of the last
        two frames.
    noop_max (30), noop_min (0): fewer than noop_max and at least noop_min frames of NOOP, drawn
        for each episode, come before the first observation. use_fire_reset (True): FIRE is one
        of them where a game has it.
    episodic_life (False): a life is an episode. The episode after it goes on with the game, where
        autoreset begins it or, in "disabled", a reset_mask. reset() begins a game, in every mode.
    life_loss_info (False): the loss of a life sets terminated, and the episode goes on, without
        any reset. For learners that cut returns at lives; most wrappers do not expect it.
    reward_clipping (True): rewards -1, 0 or 1; infos["raw_reward"] has the whole one.
    max_num_frames_per_episode (108000), also max_episode_frames: frames after which a game is
        truncated; 0: never.
    repeat_action_probability (0): sticky actions (Machado et al. 2018: 0.25).
    full_action_space (False): all 18 actions, not those alone that the game distinguishes.
    continuous (False): actions are (radius 0 to 1, angle -pi to pi, fire 0 to 1);
        continuous_action_threshold (0.5): where a stick counts as pushed and the button as pressed.
    mode, difficulty (-1): the game's, -1 for its default.
    reset ("ale"): how a game begins: ALE's procedure of some 70 frames, or "cached": one of 30
        stored states (FIRE and 0 to 29 frames of NOOP behind a reset), which takes no time.
    ending ("stale"): what is seen of an act that the game's end cuts short: "last" frames, or what
        AtariVectorEnv shows.
    ram_info (False): the machine's memory as infos["ram"].

    infos of Atari games: lives, raw_reward, game_over (the game itself is over or truncated),
    frame_number (since the last seed), episode_frame_number (of this game).
    """
    if not (isinstance(id, (str, list, tuple)) or callable(id)):
        raise ConfigError(f"id: {id!r}, must be the name of an environment, or a function that makes one")
    name = library_name(id)
    if name is None and isinstance(id, str) and not _ids.in_gymnasium(id) and _ids.atari(id):
        name, keywords = _ids.meaning(id)
        env_kwargs = keywords | env_kwargs
    if name is None and (not isinstance(id, str) or _ids.in_gymnasium(id)):
        from . import workers as processes

        if known := _ids.atari(id) if isinstance(id, str) else None:
            said = (
                f"the game's frames as ale-py has them, stepped from Python; the library plays it itself: make_vec({known[0]!r}, num_envs)"
            )
            notice(f"{id!r}: {said}")
        rendering = {} if render_mode is None else {"render_mode": render_mode}
        return processes.make(
            id, num_envs, workers=workers, batch_size=batch_size, autoreset_mode=autoreset_mode, context=context, copy=copy,
            waits=bool(waits), **rendering, **env_kwargs,
        )  # fmt: skip
    if workers:
        raise ConfigError(f"workers: {workers!r}, {id} is stepped by threads of the library: num_threads sets their number")
    if waits is not None:
        env_kwargs["waits"] = waits
    envs = VecEnv(
        name or id, num_envs, batch_size=batch_size, num_threads=num_threads, thread_affinity_offset=thread_affinity_offset,
        autoreset_mode=autoreset_mode, copy=copy, render_mode=render_mode, env_kwargs=env_kwargs,
    )  # fmt: skip
    envs.spec = copying.deepcopy(registration.spec(envs.id))
    if envs.spec is not None:
        envs.spec.kwargs.update(env_kwargs)
    return envs


def names() -> list[str]:
    """The names of the library's environments, those of load_env among them."""
    return list(_lib.take_json(_lib.lib().paceline_env_names))


_LONGEST = 1023  # bytes of a name, as the library has it


def library_name(id: Any) -> str | None:
    """What the library calls an environment, or None where it has none of that name."""
    if not isinstance(id, str):
        return None
    if len(id) > _LONGEST:  # before anybody looks for ids that are like it
        raise ConfigError(f"env: longer than {_LONGEST} bytes")
    known = names()
    bare = id.removeprefix("paceline/")
    for name in (id, bare, bare.removesuffix("-v0")):
        words = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
        if name in known or ("/" not in name and "atari/" + words in known and words != name):
            return name
    return None


def load_env(path: Any) -> str:
    """Loads environments written in C from a shared library, and returns their name for
    make_vec, gymnasium.make and DQN. The file exports paceline_env_open; see paceline.h
    (section 5) and examples/c/env_plugin.c."""
    return _lib.take_text(_lib.lib().paceline_env_load, _lib.encode(path)) or ""
