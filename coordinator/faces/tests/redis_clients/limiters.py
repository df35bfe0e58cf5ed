"""Limits of Python libraries for Redis against a server that is not Redis."""

import sys
import time

import redis
from limits import parse
from limits.storage import RedisStorage
from limits.strategies import (
    FixedWindowRateLimiter,
    MovingWindowRateLimiter,
    SlidingWindowCounterRateLimiter,
)

port, closed = sys.argv[1], sys.argv[2]


def equal(found, expect, what):
    assert found == expect, f"{what}: {found!r}, not {expect!r}"


for protocol in (2, 3):
    client = redis.Redis(port=int(port), protocol=protocol, client_name="test")
    equal(client.ping(), True, "PING")
    equal(client.client_getname() in ("test", b"test"), True, "CLIENT GETNAME")
    key = f"user:{protocol}"
    replies = [client.execute_command("CL.THROTTLE", key, 4, 5, 60) for _ in range(6)]
    equal([reply[0] for reply in replies], [0, 0, 0, 0, 0, 1], "limited")
    equal([reply[2] for reply in replies], [4, 3, 2, 1, 0, 0], "remaining")
    equal(replies[0][1], 5, "limit")
    equal(1 <= replies[5][3] <= 12, True, "retry after")
    pipe = client.pipeline(transaction=True)
    pipe.get(key)
    pipe.pttl(key)
    used, left = pipe.execute()
    equal((used, 0 < left <= 60_000), (b"5", True), "GET and PTTL")
    try:
        client.set(key, 1)
        raise AssertionError("SET is not supported")
    except redis.ResponseError as error:
        assert "not Redis" in str(error), error

storage = RedisStorage(f"redis://127.0.0.1:{port}")
limit = parse("5/minute")
for strategy in (MovingWindowRateLimiter, SlidingWindowCounterRateLimiter, FixedWindowRateLimiter):
    limiter = strategy(storage)
    # A fixed window does not tell its limit, and has that of a budget of its own.
    name = "fixed" if strategy is FixedWindowRateLimiter else strategy.__name__
    equal(limiter.get_window_stats(limit, name).remaining, 5, f"{name} before")
    equal(limiter.test(limit, name), True, f"{name} test")
    equal([limiter.hit(limit, name) for _ in range(6)], [True] * 5 + [False], f"{name} hits")
    equal(limiter.test(limit, name), False, f"{name} test when used")
    stats = limiter.get_window_stats(limit, name)
    equal(stats.remaining, 0, f"{name} remaining")
    equal(0 <= stats.reset_time - time.time() <= 61, True, f"{name} reset {stats}")
    limiter.clear(limit, name)
    # Rounding may keep one of the five for a moment.
    equal(limiter.hit(limit, name, cost=4), True, f"{name} after clear")

try:
    redis.Redis(port=int(closed)).ping()
    raise AssertionError("no password was needed")
except redis.AuthenticationError:
    pass
equal(redis.Redis(port=int(closed), password="s3cret").ping(), True, "AUTH")
equal(redis.Redis(port=int(closed), protocol=3, password="s3cret").ping(), True, "HELLO AUTH")

print("all is well")
