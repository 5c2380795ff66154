"""What pylibmc, and libmemcached under it, does with a server: HOST PORT. Prints `ok`, or fails."""

import sys

import pylibmc

LARGE_BYTES = 900_000
CONNECTIONS = 200


def main() -> None:
    server = f"{sys.argv[1]}:{sys.argv[2]}"
    client = connected(server)
    values(client)
    versions(client)
    counters(client)
    assert client.get_stats()[0][1]["version"]
    clients = [connected(server) for _ in range(CONNECTIONS)]
    for number, other in enumerate(clients):
        assert other.set(f"a:{number}", number)
    for number, other in enumerate(reversed(clients)):
        assert other.get(f"a:{number}") == number
    print("ok")


def connected(server: str) -> pylibmc.Client:
    behaviors = {"tcp_nodelay": True, "cas": True, "connect_timeout": 10_000}
    return pylibmc.Client([server], binary=False, behaviors=behaviors)


def values(client: pylibmc.Client) -> None:
    assert client.set("a:key", "value") and client.get("a:key") == "value"
    assert client.get("a:none") is None
    assert not client.add("a:key", "other") and client.replace("a:key", b"middle")
    assert client.append("a:key", b"-end") and client.prepend("a:key", b"begin-")
    assert client.get("a:key") == b"begin-middle-end"
    pairs = {f"b:{key}": key for key in range(500)}
    assert client.set_multi(pairs) == []
    assert client.get_multi([*pairs, "b:none"]) == pairs
    large = bytes(index * 31 % 251 for index in range(LARGE_BYTES))
    assert client.set("c:large", large) and client.get("c:large") == large
    assert client.touch("a:key", 1_000) and not client.touch("a:none", 1_000)
    assert client.delete_multi(["a:key", "b:1"]) and client.get_multi(["a:key", "b:1"]) == {}
    assert not client.delete("a:key")


def versions(client: pylibmc.Client) -> None:
    assert client.set("a:cas", 1)
    value, version = client.gets("a:cas")
    assert value == 1
    assert client.cas("a:cas", 2, version)
    assert not client.cas("a:cas", 3, version)
    assert client.get("a:cas") == 2


def counters(client: pylibmc.Client) -> None:
    assert client.set("a:count", 9)
    assert client.incr("a:count", 2) == 11
    assert client.decr("a:count", 100) == 0
    try:
        client.incr("a:none", 1)
    except pylibmc.NotFound:
        return
    raise AssertionError("there is nothing to count")


main()
