"""Runs Gymnasium's vector tests with Paceline's vector environments.

    python python/tests/gymnasium_suite.py FOLDER [pytest arguments]

FOLDER is a checkout of Gymnasium, because no package contains its tests. The plugin replaces
SyncVectorEnv, AsyncVectorEnv and make_vec before the tests import them. The library steps the
environments that it has; worker processes step all others. DIFFERENT lists the expected failures
with their reasons. The exit status is 1 if any other test fails.
"""

import os
import sys
from pathlib import Path

import pytest

FOLDERS = ["tests/vector", "tests/wrappers/vector"]

# Expected failures: a part of the test's name, and the reason.
DIFFERENT = {
    "test_reset_timeout_async": "AsyncVectorEnv's own methods: ours are async_reset, send and recv",
    "test_step_timeout_async": "AsyncVectorEnv's own methods",
    "test_reset_out_of_order_async": "AsyncVectorEnv's own methods",
    "test_step_out_of_order_async": "AsyncVectorEnv's own methods",
    "test_already_closed_async": "AsyncVectorEnv's own error class; ours is HandleError",
    "test_async_vector_subenv_error": "the error is a CallbackError that names the environment and has the traceback",
    "test_custom_space_async_vector_env_shared_memory": "expects a refusal; ours takes custom spaces",
    "test_set_attr": "looks at the attribute envs, or sets attributes of environments that are not Python objects",
    "test_call_": "calls methods of environments that are not Python objects",
    "test_observation_mode": "ours has one observation space for all environments, and says so in words of its own",
    "test_mixed_observation_spaces": "one observation space for all",
    "test_obs_mode": "one observation space for all",
    "test_check_spaces": "refused as well, in other words",
    "test_metadata_sync": "compares modes with strings and other metadata of SyncVectorEnv",
    "test_partial_reset_failure": "refused as well, in other words (ConfigError is a ValueError)",
    "test_action_count": "refused as well, in other words",
    "test_random_seeds_set_at_retrieval": "environments that were never seeded have no seed",
    "test_sync_vector_determinism": "compares the generators of Python environments, which ours are not",
    "test_render_modes": "rgb_array_list is RenderCollection's, not ours",
    "test_num_envs_screen_size[": "needs MuJoCo",
    "test_equivalence_with_wrapper": "looks at the attribute envs",
    "test_vector_env_wrapper_attributes": "looks at AsyncVectorEnv's attributes",
}
# Messages of errors about packages that Gymnasium's tests need and that may be missing.
MISSING = ("DependencyNotInstalled", "mujoco", "Box2D")


class Plugin:
    """Replaces Gymnasium's vector environments and marks the expected failures."""

    def __init__(self):
        import gymnasium

        import paceline
        from paceline.envs import registration

        self.native, self.processes = 0, 0
        ids = {name: f"paceline/{name}" for name in registration.CLASSIC if name in gymnasium.registry}
        original_make, original_make_vec, Sync = gymnasium.make, gymnasium.make_vec, gymnasium.vector.SyncVectorEnv

        def make(id, *arguments, **keywords):
            return original_make(ids.get(id, id) if isinstance(id, str) else id, *arguments, **keywords)

        def vector_of(
            env_fns,
            *,
            autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP,
            shared_memory=True,
            copy=True,
            context=None,
            observation_mode="same",
            **rest,
        ):
            assert observation_mode == "same" and not rest, "not ours"
            one = env_fns[0]()
            id, plain, mode = one.spec.id if one.spec else "", isinstance(one, gymnasium.wrappers.OrderEnforcing), one.render_mode
            one.close()
            if id.startswith("paceline/"):
                if not plain:  # a test compares it with a wrapped vector of Paceline
                    return Sync(env_fns, autoreset_mode=autoreset_mode)
                self.native += 1
                return paceline.make_vec(id, len(env_fns), autoreset_mode=autoreset_mode, copy=copy, render_mode=mode)
            self.processes += 1
            return paceline.make_vec(
                list(env_fns), len(env_fns), workers=2, autoreset_mode=autoreset_mode, copy=copy, context=context or "fork"
            )

        def make_vec(id, num_envs=1, vectorization_mode=None, vector_kwargs=None, wrappers=None, **keywords):
            name = getattr(id, "id", id)
            if name in ids and not wrappers:
                self.native += 1
                return original_make_vec(ids[name], num_envs, "vector_entry_point", **(vector_kwargs or {}), **keywords)
            return original_make_vec(ids.get(name, id), num_envs, vectorization_mode, vector_kwargs, wrappers, **keywords)

        for name in ("SyncVectorEnv", "AsyncVectorEnv"):
            setattr(gymnasium.vector, name, vector_of)
        gymnasium.make, gymnasium.make_vec = make, make_vec

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        report = outcome.get_result()
        if report.failed and any(word in str(report.longrepr) for word in MISSING):
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, "Skipped: a package is not installed")

    def pytest_collection_modifyitems(self, items):
        for item in items:
            for part, reason in DIFFERENT.items():
                if part in item.nodeid:
                    item.add_marker(pytest.mark.xfail(reason=reason))

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.write_line(f"vectors made: {self.native} stepped by the library, {self.processes} by worker processes")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.chdir(sys.argv[1])
    sys.path.insert(0, os.getcwd())
    arguments = sys.argv[2:] or [folder for folder in FOLDERS if Path(folder).exists()]
    sys.exit(pytest.main(["-q", "-rxX", "-p", "no:cacheprovider", *arguments], plugins=[Plugin()]))
