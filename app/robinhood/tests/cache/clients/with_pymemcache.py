"""What pymemcache does with a server: HOST PORT. Prints `ok`, or fails where an answer is not what it should be."""

import sys

from pymemcache.client.base import Client
from pymemcache.client.base import PooledClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

LARGE_BYTES = 900_000
CONNECTIONS = 200


def main() -> None:
    server = (sys.argv[1], int(sys.argv[2]))
    client = Client(server, connect_timeout=10, timeout=10, no_delay=True, default_noreply=False)
    values(client)
    versions(client)
    counters(client)
    refusals(client)
    without_answers(client)
    assert client.version()
    assert b"curr_items" in client.stats()
    many_connections(server)
    print("ok")


def values(client: Client) -> None:
    assert client.set("a:key", b"value")
    assert client.get("a:key") == b"value"
    assert client.get("a:none") is None
    assert not client.add("a:key", b"other")
    assert client.replace("a:key", b"middle")
    assert client.append("a:key", b"-end") and client.prepend("a:key", b"begin-")
    assert client.get("a:key") == b"begin-middle-end"
    assert not client.append("a:none", b"x")
    pairs = {f"b:{key}": b"%d" % key for key in range(500)}
    assert client.set_many(pairs) == []
    assert client.get_many([*pairs, "b:none"]) == pairs
    large = bytes(index * 31 % 251 for index in range(LARGE_BYTES))
    assert client.set("c:large", large)
    assert client.get("c:large") == large
    assert client.set("a:empty", b"") and client.get("a:empty") == b""
    assert client.set("a:lines", b"\r\nEND\r\n") and client.get("a:lines") == b"\r\nEND\r\n"
    assert client.touch("a:key", expire=1_000) and not client.touch("a:none", expire=1_000)
    assert client.set("a:gone", b"x", expire=-1) and client.get("a:gone") is None
    assert client.delete("a:key") and not client.delete("a:key")


def versions(client: Client) -> None:
    assert client.set("a:cas", b"1")
    value, version = client.gets("a:cas")
    assert value == b"1"
    assert client.cas("a:cas", b"2", version) is True
    assert client.cas("a:cas", b"3", version) is False
    assert client.cas("a:none", b"3", version) is None
    assert client.gets_many(["a:cas"])["a:cas"][0] == b"2"


def counters(client: Client) -> None:
    assert client.set("a:count", b"9")
    assert client.incr("a:count", 2) == 11
    assert client.decr("a:count", 5) == 6
    assert client.decr("a:count", 100) == 0
    assert client.incr("a:none", 1) is None


def refusals(client: Client) -> None:
    client.set("a:word", b"word")
    refused(MemcacheClientError, lambda: client.incr("a:word", 1))
    refused(MemcacheServerError, lambda: client.set("a:word", b"x" * 3_000_000))


def refused(error: type, call) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError("this should have been refused")


def without_answers(client: Client) -> None:
    for key in range(300):
        client.set(f"c:{key}", b"%d" % key, noreply=True)
    client.delete("c:0", noreply=True)
    client.incr("c:1", 5, noreply=True)
    client.touch("c:1", 100, noreply=True)
    assert client.get_many(["c:0", "c:1", "c:299"]) == {"c:1": b"6", "c:299": b"299"}


def many_connections(server) -> None:
    clients = [Client(server, connect_timeout=10, timeout=10) for _ in range(CONNECTIONS)]
    for number, client in enumerate(clients):
        assert client.set(f"a:{number}", b"%d" % number, noreply=False)
    for number, client in enumerate(reversed(clients)):
        assert client.get(f"a:{number}") == b"%d" % number
    for client in clients:
        client.quit()
    pool = PooledClient(server, max_pool_size=4, connect_timeout=10, timeout=10)
    assert pool.get("a:7") == b"7"


main()
