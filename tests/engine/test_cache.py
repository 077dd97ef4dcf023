"""The cache of plans: what is kept, and how often threads make an entry."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.runtime.cache import LatestUsed

PATIENCE = 30  # seconds; only a test that fails waits so long


def keys(cache):
    return [key for key, _ in cache.items()]


@pytest.fixture(params=[True, False], ids=["serial", "side by side"])
def serial(request):
    return request.param


def test_an_entry_is_made_once_and_the_one_unused_longest_is_dropped(serial):
    cache, made = LatestUsed(2, serial=serial), Counter()

    def make(key):
        made[key] += 1
        return [key]

    first = cache.get(1, make)
    cache.get(2, make)
    assert cache.get(1, make) is first
    cache.get(3, make)  # drops 2
    assert keys(cache) == [1, 3]
    cache.get(2, make)
    assert made == {1: 1, 2: 2, 3: 1}
    cache.clear()
    assert keys(cache) == []
    assert cache.get(1, make) == first
    assert made[1] == 2


def test_an_error_is_passed_on_and_leaves_nothing_behind(serial):
    cache = LatestUsed(2, serial=serial)
    with pytest.raises(ZeroDivisionError) as raised:
        cache.get(0, lambda key: 1 // key)
    assert raised.value.__context__ is None  # a traceback shows no error of the cache
    assert keys(cache) == []
    assert cache.get(0, lambda key: key) == 0


def test_a_falsy_entry_is_an_entry(serial):
    cache = LatestUsed(2, serial=serial)
    assert cache.get("key", lambda _: None) is None
    assert cache.get("key", lambda _: pytest.fail("made twice")) is None


def test_entries_may_be_made_while_another_one_is(serial):
    cache = LatestUsed(4, serial=serial)
    assert cache.get(3, lambda key: 0 if key == 0 else 1 + cache.get(key - 1, lambda k: k)) == 3
    assert sorted(keys(cache)) == [2, 3]


def test_a_thread_whose_entry_exists_waits_for_no_other(serial):
    cache, begun, finish = LatestUsed(4, serial=serial), threading.Event(), threading.Event()
    cache.get("old", str)

    def make(key):
        begun.set()
        assert finish.wait(PATIENCE)
        return key

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(cache.get, "new", make)
        assert begun.wait(PATIENCE)
        try:
            assert pool.submit(cache.get, "old", str).result(PATIENCE) == "old"
        finally:
            finish.set()
        assert slow.result(PATIENCE) == "new"


def test_serial_threads_make_one_entry_at_a_time_and_none_twice():
    cache, inside, most, made = LatestUsed(8, serial=True), [0], [0], Counter()
    barrier = threading.Barrier(6)

    def make(key):
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.01)  # lets other threads run
        inside[0] -= 1
        made[key] += 1
        return object()

    def ask(number):
        barrier.wait(PATIENCE)
        return [cache.get(key, make) for key in (0, 1, number % 2)]

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(ask, range(6)))
    assert most == [1]
    assert made == {0: 1, 1: 1}
    assert len({id(entry) for answer in answers for entry in answer}) == 2


def test_threads_side_by_side_may_make_the_same_entry_and_all_get_the_first():
    cache, barrier = LatestUsed(8, serial=False), threading.Barrier(4)

    def make(_key):
        barrier.wait(PATIENCE)  # breaks unless all four make it at the same time
        return object()

    with ThreadPoolExecutor(4) as pool:
        entries = list(pool.map(lambda _: cache.get("key", make), range(4)))
    assert len(set(map(id, entries))) == 1
    assert cache.get("key", make) is entries[0]


def test_clearing_drops_what_another_thread_is_making():
    cache, begun, finish = LatestUsed(4, serial=True), threading.Event(), threading.Event()

    def make(key):
        begun.set()
        assert finish.wait(PATIENCE)
        return key

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(cache.get, "key", make)
        assert begun.wait(PATIENCE)
        cleared = pool.submit(cache.clear)
        threading.Event().wait(0.05)
        assert not cleared.done()
        finish.set()
        slow.result(PATIENCE)
        cleared.result(PATIENCE)
    assert keys(cache) == []


def test_threads_in_any_order_get_what_belongs_to_their_keys(serial):
    cache = LatestUsed(3, serial=serial)

    def ask(seed):
        generator = random.Random(seed)
        for _ in range(2000):
            key = generator.randrange(6)
            assert cache.get(key, lambda k: k * 10) == key * 10
            assert len(cache.items()) <= 3

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(4)))
