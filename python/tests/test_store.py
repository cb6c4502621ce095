"""paceline.Store: a range of parameters with its optimiser, its keys and its files."""

import copy
import io
import pickle
import threading

import numpy as np
import pytest

import paceline
from paceline.errors import CheckpointError, ConfigError, HandleError, MissingFileError, NotFiniteError
from paceline.store import Answer, Key, Ledger, Store, shard_ranges

SIZE = 100


def numbers(seed, size=SIZE):
    return np.random.default_rng(seed).uniform(-1, 1, size).astype(np.float32)


def test_shards_are_those_of_the_library():
    # TestShardsPartitionTheParameters of core/param has the same sizes
    assert shard_ranges(5, 5) == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]
    assert shard_ranges(131, 8) == [(0, 16), (16, 16), (32, 16), (48, 16), (64, 16), (80, 16), (96, 16), (112, 19)]
    for size, shards in [(1, 1), (131, 1), (131, 9), (131, 131), (1600, 100), (1601, 7), (5000, 1024), (1693362, 31)]:
        ranges = shard_ranges(size, shards)
        assert [first for first, _ in ranges] == list(np.cumsum([0, *(n for _, n in ranges)]))[:-1]
        sizes = [n for _, n in ranges]
        assert len(ranges) == shards and sum(sizes) == size and min(sizes) > 0 and max(sizes) - min(sizes) <= 31
    for size, shards in [(0, 1), (5, 6), (5, 0), (5000, 1025), (5, 1.5)]:
        with pytest.raises(ConfigError, match="size|shards"):
            shard_ranges(size, shards)


def test_a_push_is_a_step_of_adagrad():
    parameters, seen = numbers(0), 0
    theta, sums = parameters[20:90].copy(), np.zeros(70, np.float32)
    with Store(parameters, first=20, size=70, optimizer="adagrad", eps=0.01) as store:
        assert (store.first, store.size, store.optimizer, store.max_staleness, store.version) == (20, 70, "adagrad", 0, 0)
        assert repr(store) == "<paceline.Store of parameters 20 to 89, adagrad>"
        for step in range(1, 8):
            grad = numbers(step, 70)
            answer = store.push(grad, 0.1, seen, (3, 0, step))
            assert answer == Answer(version=step, lag=0, stale=False, duplicate=False)
            sums += grad * grad
            theta -= np.float32(0.1) * grad / (np.sqrt(sums) + np.float32(0.01))
            now, seen = store.pull()
            assert seen == step and now.dtype == np.float32
            np.testing.assert_allclose(now, theta, rtol=1e-6, atol=1e-6)
    assert (parameters == numbers(0)).all()


def test_ranges_have_the_bits_of_the_whole():
    whole = Store(numbers(0), optimizer="adam")
    parts = [Store(numbers(0), first, size, optimizer="adam") for first, size in shard_ranges(SIZE, 3)]
    out = np.empty(SIZE, np.float32)
    for step in range(1, 6):
        grad = numbers(step)
        whole.push(grad, 0.01, step - 1, Key(0, 0, step))
        for part in parts:
            place = slice(part.first, part.first + part.size)
            part.push(grad[place], 0.01, step - 1, Key(0, 0, step))
            now, version = part.pull(out[place])
            assert now.base is out and version == step
        assert out.tobytes() == whole.pull()[0].tobytes()


def test_keys_staleness_and_ledgers():
    store = Store(numbers(0), max_staleness=2)
    for step in range(1, 5):
        store.push(numbers(step), 0.1, step - 1, (0, 0, step))
    before = store.pull()[0]
    assert store.push(numbers(9), 0.1, 1, (1, 0, 1)) == Answer(4, 3, True, False)
    assert store.push(numbers(9), 0.1, 4, (1, 0, 1)) == Answer(4, 3, True, True)
    assert store.push(numbers(9), 0.1, 4, (0, 0, 2)) == Answer(2, 0, False, True)
    assert store.pull()[0].tobytes() == before.tobytes()
    assert store.push(numbers(9), 0.1, 3, (1, 1, 1)) == Answer(5, 1, False, False)
    with pytest.raises(ConfigError, match=r"key\.life: 0, must be at least 1, the latest life of learner 1"):
        store.push(numbers(9), 0.1, 5, (1, 0, 2))
    assert store.describe() == {
        "first": 0, "size": SIZE, "optimizer": "adagrad", "max_staleness": 2, "version": 5, "refused": 1, "duplicates": 2, "pulls": 2,
    }  # fmt: skip
    answers = tuple((step, step, 0, False) for step in range(1, 5))
    assert store.ledgers() == [Ledger(0, 0, 4, 4, 0, 1, answers), Ledger(1, 1, 1, 1, 0, 0, ((1, 5, 1, False),))]


def test_wrong_input_changes_nothing():
    store = Store(numbers(0), optimizer="rmsprop", centered=True, eps_inside=True, first_average=1)
    store.push(numbers(1), 0.1, 0, (0, 0, 70))
    data = store.to_bytes()
    bad = numbers(2)
    bad[3] = np.nan
    for error, match, arguments in [
        (ConfigError, "grad: 99 numbers, must be 100, the parameters of the store", (numbers(1, 99), 0.1, 0, (0, 0, 71))),
        (ConfigError, "grad: shape", (numbers(1).reshape(10, 10), 0.1, 0, (0, 0, 71))),
        (ConfigError, "grad: str_, must be an array of real numbers", ("x", 0.1, 0, (0, 0, 71))),
        (NotFiniteError, "grad: number 3 is NaN, must be finite", (bad, 0.1, 0, (0, 0, 71))),
        (ConfigError, "learning_rate: -1, must be 0 to 1000", (numbers(1), -1, 0, (0, 0, 71))),
        (ConfigError, r"learning_rate: \+Inf, must be 0 to 1000", (numbers(1), 10**400, 0, (0, 0, 71))),
        (ConfigError, "seen: 2, must be at most the version, which is 1", (numbers(1), 0.1, 2, (0, 0, 71))),
        (ConfigError, "seen: -1, must be 0 to", (numbers(1), 0.1, -1, (0, 0, 71))),
        (ConfigError, "key.learner: 4096, must be 0 to 4095", (numbers(1), 0.1, 0, (4096, 0, 71))),
        (ConfigError, "key.step: 6, must be above 6", (numbers(1), 0.1, 0, (0, 0, 6))),
        (ConfigError, "key.step: 0, must be 1 to", (numbers(1), 0.1, 0, (0, 0, 0))),
        (ConfigError, "key: 5, must be ", (numbers(1), 0.1, 0, 5)),
        (ConfigError, r"key: \(0, 0\), must be ", (numbers(1), 0.1, 0, (0, 0))),
        (ConfigError, r"key: \(0, 0, 71, 2\), must be ", (numbers(1), 0.1, 0, (0, 0, 71, 2))),
        (ConfigError, "learning_rate: None, must be a number", (numbers(1), None, 0, (0, 0, 71))),
        (ConfigError, "grad: complex64, must be an array of real numbers", (numbers(1) + 1j, 0.1, 0, (0, 0, 71))),
    ]:
        with pytest.raises(error, match=match):
            store.push(*arguments)
    with pytest.raises(ConfigError, match="out: 3 numbers, must be 100, the parameters of the store"):
        store.pull(np.empty(3, np.float32))
    for out in (np.empty(SIZE), np.empty(2 * SIZE, np.float32)[::2], [0.0] * SIZE):
        with pytest.raises(ConfigError, match="out: must be a contiguous NumPy array of float32"):
            store.pull(out)
    assert store.to_bytes() == data
    for match, keywords in [
        ('optimizer.name: "sgd", must be one of', {"optimizer": "sgd"}),
        ("optimizer: None, must be a name", {"optimizer": None}),
        ("beta1: 0, must be a number above 0, or None", {"optimizer": "adam", "beta1": 0}),
        ("eps: '1', must be a number above 0, or None", {"eps": "1"}),
        (r"optimizer.eps: \+Inf, must be ", {"eps": 10**400}),
        ("eps: -1", {"eps": -(10**400)}),
        ("centered: 'false', must be True or False", {"optimizer": "rmsprop", "centered": "false"}),
        ("optimizer.decay: 0.5, adagrad has no such setting", {"decay": 0.5}),
        ("first: 100, must be 0 to 99", {"first": 100}),
        ("size: 101, must be 1 to 100", {"size": 101}),
        ("size: 0, must be 1 to 100", {"size": 0}),
        ("size: 0, must be 1 to 60", {"first": 40, "size": 0}),
        ("max_staleness: -1, must be 0 to", {"max_staleness": -1}),
        ("first_average: 2, must be 0 to 1", {"first_average": 2}),
    ]:
        with pytest.raises(ConfigError, match=match):
            Store(numbers(0), **keywords)
    with pytest.raises(NotFiniteError, match="parameters: number 3 is NaN, must be finite"):
        Store(bad)
    with pytest.raises(ConfigError, match="^parameters: 0 numbers, must be at least 1$"):
        Store([])


@pytest.mark.parametrize(
    "given, says",
    [
        (3.0, r"shape \(\), must have one axis"),
        (b"123", "bytes_, must be an array of real numbers"),
        (np.array(["2020"], "M8[Y]"), "datetime64, must be"),
        (np.array([1], "m8[s]"), "timedelta64, must be"),
        (["1", "2"], "str_, must be"),
        ([None], "object_, must be"),
        ([1j], "complex128, must be"),
        ([[1], [2, 3]], "list, must be"),
    ],
)
def test_only_arrays_of_real_numbers_with_one_axis_are_taken(given, says):
    with pytest.raises(ConfigError, match=f"^parameters: {says}"):
        Store(given)
    with Store(np.zeros(1)) as store, pytest.raises(ConfigError, match=f"^grad: {says}"):
        store.push(given, 0.1, 0, (0, 0, 1))


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", ">f4", "f8", "g"])
def test_all_real_numbers_are_taken(dtype):
    with Store(np.array([0, 1], dtype)) as store:
        assert store.pull()[0].tolist() == [0, 1]


@pytest.mark.filterwarnings("error")
def test_a_number_too_large_for_float32_is_infinite():
    with pytest.raises(NotFiniteError, match=r"parameters: number 1 is \+Inf, must be finite"):
        Store([0, 1e300])


def test_a_saved_store_goes_on(tmp_path):
    store = Store(numbers(0), first=10, size=50, optimizer="adam", max_staleness=5)
    for step in range(1, 4):
        store.push(numbers(step, 50), 0.01, step - 1, (7, 1, step))
    store.save(tmp_path / "shard")
    assert (tmp_path / "shard.store").is_file()
    buffer = io.BytesIO()
    store.save(buffer)
    others = [
        Store.load(tmp_path / "shard"), Store.load(buffer), Store.from_bytes(store.to_bytes()), copy.copy(store),
        pickle.loads(pickle.dumps(store)),
    ]  # fmt: skip
    want = store.push(numbers(4, 50), 0.01, 2, (7, 1, 4))
    for other in others:
        assert (other.first, other.size, other.version) == (10, 50, 3)
        assert other.push(numbers(9, 50), 0.01, 3, (7, 1, 3)) == Answer(3, 0, False, True)
        assert other.push(numbers(4, 50), 0.01, 2, (7, 1, 4)) == want
        assert other.pull()[0].tobytes() == store.pull()[0].tobytes()
        other.close()
    data = bytearray(store.to_bytes())
    data[200] ^= 1
    with pytest.raises(CheckpointError, match="not a whole checkpoint"):
        Store.from_bytes(bytes(data))
    with pytest.raises(CheckpointError):
        Store.from_bytes(b"")
    with pytest.raises(ConfigError, match="data: bytearray, must be bytes"):
        Store.from_bytes(data)
    with pytest.raises(MissingFileError):
        Store.load(tmp_path / "none")
    store.close()
    store.close()
    with pytest.raises(HandleError, match="paceline_store: the handle was freed"):
        store.pull()


def test_a_sum_that_has_overflowed_is_saved_and_loaded():
    with Store(numbers(0)) as store:
        for step in range(1, 10):
            store.push(np.full(SIZE, 9e18, np.float32), 0.01, step - 1, (0, 0, step))
        with Store.from_bytes(store.to_bytes()) as again:
            assert again.version == 9 and again.pull()[0].tobytes() == store.pull()[0].tobytes()


def test_threads_push_and_pull_concurrently():
    store, steps = Store(np.zeros(SIZE), optimizer="adam"), 50
    failed = []

    def learner(k):
        try:
            for step in range(1, steps + 1):
                now, seen = store.pull()
                assert (now == now[0]).all()
                store.push(np.ones(SIZE), 0.01, seen, (k, 0, step))
        except BaseException as err:
            failed.append(err)

    threads = [threading.Thread(target=learner, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and store.version == 4 * steps
    alone = Store(np.zeros(SIZE), optimizer="adam")
    for step in range(4 * steps):
        alone.push(np.ones(SIZE), 0.01, step, (0, 0, step + 1))
    assert alone.pull()[0].tobytes() == store.pull()[0].tobytes()


def test_public_names():
    assert paceline.Store is Store and paceline.shard_ranges is shard_ranges
