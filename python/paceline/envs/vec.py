"""Vector environments: built-in ones and environments written in Python.

    import paceline

    envs = paceline.make_vec("Pong", num_envs=8)
    obs, infos = envs.reset(seed=1)
    obs, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())

make_vec makes them; they have Gymnasium's VectorEnv interface.
"""

from __future__ import annotations

import copy as copying
from typing import Any

from .. import _lib
from ..errors import ConfigError
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
    """Makes num_envs environments as a gymnasium.vector.VectorEnv.

    id: a built-in environment: "CartPole-v1", "Catch-v0", ..., or an Atari game ("Pong",
        "SpaceInvaders" or "atari/space_invaders"), whose ROM file must be installed. Gymnasium's
        prefix is allowed ("paceline/Pong-v0"), and so is a name that load_env returned. For an id of
        another project's Atari game, such as "ALE/Pong-v5", the library's own game is made, and a
        warning names the recipe. The library's threads step these. Other values: the id of a
        Gymnasium environment, a function that makes one, or a list of num_envs such functions. The
        caller's process steps these one after another, or worker processes do; see workers and
        paceline.workers.
    batch_size: environments whose rows recv returns, 0 for all.
    num_threads: threads that step the environments, 0 for one per core. It does not change results.
    thread_affinity_offset: the core to which the first of these threads is bound, -1 for none.
    autoreset_mode: "next_step", "same_step", "disabled" or a member of
        gymnasium.vector.AutoresetMode: how the next episode begins after one has ended.
        metadata["autoreset_mode"] has it.
    copy: True returns arrays that later calls do not change. False returns arrays that the next
        step, recv or reset overwrites.
    render_mode: "rgb_array" makes render() return images.
    workers: worker processes for Python environments, 0 for one per core (one per environment with
        waits); None: the caller's process steps them. Processes are faster if a step takes longer
        than a message to a process, tens of microseconds.
    context: how worker processes start, "spawn" (None) or "fork".
    waits: True if steps mostly wait for a device, a clock or another program and compute little.
        Each built-in environment then has a thread of its own (at most 1024, for any num_threads),
        so that all wait concurrently; Python environments with workers=0 have a process each. A DQN
        with waits in env_kwargs runs updates during the waits. None: the environment's own
        declaration (in C PACELINE_ENV_WAITS), False for Python environments. It does not change
        results.

    Keywords of every built-in environment:

    decorrelation_steps (0): the first episode after a seed begins after a random number of random
        steps, 0 to decorrelation_steps, so that environments are not in lockstep (Stooke & Abbeel
        2018).

    Keywords of the five Mini games, such as "Mini-Breakout-v0": sticky_action_prob (0.1), the
        probability that a step repeats the last action; ramping (True), False keeps the difficulty
        of the start; max_episode_steps (2500 in Freeway, else 10000), the steps after which an
        episode is truncated, 0: never. gymnasium.make keeps it for its own TimeLimit and so only
        lowers the limit; paceline.make takes any limit.

    Keywords of Atari games. Keywords of ale_py's AtariVectorEnv have its names and meanings, except
    episodic_life.

    recipe ("ale"): the defaults of all other keywords: "ale" (AtariVectorEnv's), "mnih2015",
        "machado2018", "dopamine", "sb3" or "stooke_abbeel". infos["recipe"] has its name and the keywords that
        differ from it; infos["recipe_hash"] is a hash of all values. "sb3" gives the same steps as
        stable-baselines3's make_atari_env and VecFrameStack(4) on a NoFrameskip-v4 game: before an
        episode FIRE and the game's third action last frameskip frames each, and frameskip frames of
        NOOP follow a lost life. Two differences remain. reset() always begins a game, where
        stable-baselines3's wrappers may continue one. Rewards and frames of a reset are not in an
        episode's return and length; stable-baselines3's Monitor includes them.
    obs_type ("grayscale"): or "rgb" [stack, height, width, 3], or "ram" [128] ([stack, 128] with
        stack_num above 1). grayscale (True): False is obs_type="rgb".
    img_height, img_width (84), stack_num (4): the size of an observation; frames before an episode
        are 0.
    frameskip (4): frames for which an action lasts. maxpool (True): observe the pixelwise maximum
        of the last two frames.
    noop_max (30), noop_min (0): the number of NOOP frames before the first observation, drawn for
        each episode: at least noop_min, fewer than noop_max; noop_min if noop_max is not above
        noop_min. If both are given, noop_max must be at least noop_min. use_fire_reset (True): one
        of these frames is FIRE if the actions include it.
    episodic_life (False): True ends an episode at a lost life, after all frames of the action. The
        next episode continues the game if autoreset begins it, or in "disabled" a reset_mask.
        reset() begins a game, in every mode. (AtariVectorEnv ends the action at once and always
        begins a game.)
    life_loss_info (False): True sets terminated at a lost life, and the episode continues without a
        reset, for learners that cut returns at lives. Most wrappers do not support it.
    reward_clipping (True): rewards are -1, 0 or 1; infos["raw_reward"] has the unclipped reward.
    max_num_frames_per_episode (108000), also max_episode_frames: frames after which a game is
        truncated; 0: never.
    repeat_action_probability (0): the probability of sticky actions (Machado et al. 2018: 0.25).
    full_action_space (False): True for all 18 actions, False for those that the game distinguishes.
    continuous (False): True for actions (radius 0 to 1, angle -pi to pi, fire 0 to 1).
        continuous_action_threshold (0.5): the value from which the stick counts as pushed and the
        button as pressed.
    mode, difficulty (-1): the game's mode and difficulty, -1 for the game's default.
    reset ("ale"): how a game begins: "ale" is ALE's procedure of about 70 frames; "cached" loads
        one of 30 stored states (FIRE and 0 to 29 frames of NOOP after a reset), without emulation.
    ending ("stale"): the observation of an action that the game's end cuts short: "last" has the
        last frames, "stale" the frames that AtariVectorEnv shows.
    ram_info (False): True adds the machine's memory as infos["ram"].

    infos of Atari games: lives, raw_reward, game_over (the game itself has ended or was truncated),
    frame_number (frames since the last seed), episode_frame_number (frames of this game).
    """
    if not (isinstance(id, (str, list, tuple)) or callable(id)):
        raise ConfigError(f"id: {id!r}, must be the name of an environment, or a function that makes one")
    if in_python(id):
        from . import workers as processes

        rendering = {} if render_mode is None else {"render_mode": render_mode}
        return processes.make(
            id, num_envs, workers=workers, batch_size=batch_size, autoreset_mode=autoreset_mode, context=context, copy=copy,
            waits=bool(waits), **rendering, **env_kwargs,
        )  # fmt: skip
    name = library_name(id)
    if name is None and _ids.atari(id):
        name, keywords = _ids.meaning(id)
        env_kwargs = keywords | env_kwargs
    if workers:
        raise ConfigError(f"workers: {workers!r}, must be None for {id}: the library's threads step it, num_threads sets their number")
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


def in_python(id: Any) -> bool:
    """Whether make_vec(id) makes environments written in Python; raises ConfigError as _ids.in_gymnasium does."""
    return not isinstance(id, str) or (library_name(id) is None and not _ids.atari(id) and _ids.in_gymnasium(id))


def names() -> list[str]:
    """The names of all built-in environments and of those that load_env has loaded."""
    return list(_lib.take_json(_lib.lib().paceline_env_names))


_LONGEST = 1023  # bytes of a name, the library's limit


def library_name(id: Any) -> str | None:
    """The library's name of an environment, or None if it has no such environment."""
    if not isinstance(id, str):
        return None
    if len(id) > _LONGEST:  # the search for similar ids would be slow
        raise ConfigError(f"env: longer than {_LONGEST} bytes")
    known = names()
    bare = id.removeprefix("paceline/")
    for name in (id, bare, bare.removesuffix("-v0")):
        words = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
        if name in known or ("/" not in name and "atari/" + words in known and words != name):
            return name
    return None


def load_env(path: Any) -> str:
    """Loads an environment written in C from a shared library; returns its name for make_vec and models.

    The library must export paceline_env_open; see paceline.h (section 5) and
    examples/c/env_plugin.c.
    """
    return _lib.take_text(_lib.lib().paceline_env_load, _lib.encode(path)) or ""
