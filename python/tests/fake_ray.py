"""A stand-in for the module ray: actors are objects of this process, and a call is done when it is sent."""

import contextlib
import functools
import threading
import types


class Lost(Exception):
    """The error of a call to an actor that has ended."""


class TaskError(Exception):
    """The error of a call that has raised another one, its cause."""

    def __init__(self, cause):
        super().__init__(f"Traceback of another process\n{cause}")
        self.cause = cause


class Ray:
    """The part of ray that a run uses. reconstructed: what actors hear of themselves. hanging: names of actors that do not answer."""

    def __init__(self):
        self.actors, self.locks, self.made, self.reconstructed = {}, {}, {}, False
        self.hanging, self.unanswered = set(), []  # unanswered: (name, method) of each call to them
        names = ("RayActorError", "ObjectLostError", "GetTimeoutError", "WorkerCrashedError")
        self.exceptions = types.SimpleNamespace(**dict.fromkeys(names, Lost), RayTaskError=TaskError)
        self.util = types.SimpleNamespace(list_named_actors=lambda **_: [{"namespace": "paceline", "name": n} for n in self.actors])

    def remote(self, cls):
        return types.SimpleNamespace(options=lambda **options: Maker(self, cls, options))

    def wait(self, refs, num_returns=1, timeout=None):
        return [ref for ref in refs if not ref.hangs], [ref for ref in refs if ref.hangs]

    def put(self, value):
        return Ref(lambda: value)

    def get(self, ref, timeout=None):
        if isinstance(ref, list):
            return [self.get(one) for one in ref]
        assert not ref.hangs, "get waits for ever"
        if isinstance(ref.error, BaseException):
            raise ref.error
        return ref.result

    def kill(self, handle, no_restart=True):
        actor = self.actors.pop(handle.name, None)
        if hasattr(actor, "halt"):  # its thread stays
            actor.halt(2**60)

    def end(self, name):
        """Ends an actor. Calls to it fail until restart."""
        actor = self.actors.pop(name)
        actor._ended = True  # the thread of a supervisor

    def restart(self, name):
        self.reconstructed = True
        self.actors[name] = self.made[name]()

    def get_actor(self, name, namespace):
        if name not in self.actors:
            raise ValueError(name)
        return Handle(self, name)

    def get_runtime_context(self):
        return types.SimpleNamespace(was_current_actor_reconstructed=self.reconstructed)

    def is_initialized(self):
        return True

    def nodes(self):
        return [{"Alive": True, "NodeID": "a", "Resources": {}}]


class Maker:
    def __init__(self, ray, cls, options):
        self.ray, self.cls, self.options = ray, cls, options

    def remote(self, *arguments):
        name = self.options.get("name", "unnamed")
        if name not in self.ray.actors:
            self.ray.made[name] = lambda: self.cls(*arguments)
            self.ray.actors[name] = self.ray.made[name]()
            self.ray.locks[name] = contextlib.nullcontext() if "max_concurrency" in self.options else threading.RLock()
        return Handle(self.ray, name)


class Ref:
    hangs = False

    def __init__(self, call):
        self.result = self.error = None
        try:
            self.result = call()
        except Exception as err:
            self.error = err


class Handle:
    def __init__(self, ray, name):
        self.ray, self.name = ray, name

    def __getattr__(self, method):
        def call(*arguments):
            if (actor := self.ray.actors.get(self.name)) is None:
                raise Lost(self.name)
            with self.ray.locks[self.name]:
                return getattr(actor, method)(*(self.ray.get(a) if isinstance(a, Ref) else a for a in arguments))

        def remote(*arguments):
            if self.name not in self.ray.hanging:
                return Ref(functools.partial(call, *arguments))
            self.ray.unanswered.append((self.name, method))
            ref = Ref(lambda: None)
            ref.hangs = True
            return ref

        def several(num_returns):
            return types.SimpleNamespace(remote=lambda *arguments: [Ref(lambda one=one: one) for one in call(*arguments)])

        return types.SimpleNamespace(remote=remote, options=several)
