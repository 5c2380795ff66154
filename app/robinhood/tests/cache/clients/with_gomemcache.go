// What gomemcache does with a server: HOST:PORT. Prints "ok", or says what is wrong.
package main

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

const (
	largeBytes  = 900_000
	connections = 200
)

func main() {
	client := memcache.New(os.Args[1])
	client.Timeout = 10 * time.Second
	values(client)
	versions(client)
	counters(client)
	manyConnections(client)
	fmt.Println("ok")
}

func values(client *memcache.Client) {
	expect(client.Set(&memcache.Item{Key: "a:key", Value: []byte("value"), Flags: 7}), nil)
	item, err := client.Get("a:key")
	expect(err, nil)
	same(item.Value, []byte("value"))
	if item.Flags != 7 {
		fail("flags are %d", item.Flags)
	}
	_, err = client.Get("a:none")
	expect(err, memcache.ErrCacheMiss)
	expect(client.Add(&memcache.Item{Key: "a:key", Value: []byte("x")}), memcache.ErrNotStored)
	var keys []string
	for number := 0; number < 500; number++ {
		key := fmt.Sprintf("b:%d", number)
		keys = append(keys, key)
		expect(client.Set(&memcache.Item{Key: key, Value: []byte(key)}), nil)
	}
	items, err := client.GetMulti(append(keys, "b:none"))
	expect(err, nil)
	if len(items) != len(keys) {
		fail("%d values of %d", len(items), len(keys))
	}
	for _, key := range keys {
		same(items[key].Value, []byte(key))
	}
	large := make([]byte, largeBytes)
	for index := range large {
		large[index] = byte(index * 31 % 251)
	}
	expect(client.Set(&memcache.Item{Key: "c:large", Value: large}), nil)
	item, err = client.Get("c:large")
	expect(err, nil)
	same(item.Value, large)
	expect(client.Touch("a:key", 1000), nil)
	expect(client.Touch("a:none", 1000), memcache.ErrCacheMiss)
	expect(client.Delete("a:key"), nil)
	expect(client.Delete("a:key"), memcache.ErrCacheMiss)
}

func versions(client *memcache.Client) {
	expect(client.Set(&memcache.Item{Key: "a:cas", Value: []byte("1")}), nil)
	first, err := client.Get("a:cas")
	expect(err, nil)
	second, err := client.Get("a:cas")
	expect(err, nil)
	first.Value = []byte("2")
	expect(client.CompareAndSwap(first), nil)
	second.Value = []byte("3")
	expect(client.CompareAndSwap(second), memcache.ErrCASConflict)
	expect(client.Delete("a:cas"), nil)
	expect(client.CompareAndSwap(second), memcache.ErrCacheMiss)
}

func counters(client *memcache.Client) {
	expect(client.Set(&memcache.Item{Key: "a:count", Value: []byte("9")}), nil)
	number, err := client.Increment("a:count", 2)
	expect(err, nil)
	if number != 11 {
		fail("9 and 2 are %d", number)
	}
	number, err = client.Decrement("a:count", 100)
	expect(err, nil)
	if number != 0 {
		fail("11 less 100 is %d", number)
	}
	_, err = client.Increment("a:none", 1)
	expect(err, memcache.ErrCacheMiss)
}

// All goroutines wait for each other while they hold a connection of their own.
func manyConnections(client *memcache.Client) {
	var everybody sync.WaitGroup
	for number := 0; number < connections; number++ {
		everybody.Add(1)
		go func(key string) {
			defer everybody.Done()
			for round := 0; round < 20; round++ {
				expect(client.Set(&memcache.Item{Key: key, Value: []byte(key)}), nil)
				item, err := client.Get(key)
				expect(err, nil)
				same(item.Value, []byte(key))
			}
		}(fmt.Sprintf("a:%d", number))
	}
	everybody.Wait()
}

func expect(found, expected error) {
	if found != expected {
		fail("%v instead of %v", found, expected)
	}
}

func same(found, expected []byte) {
	if !bytes.Equal(found, expected) {
		fail("%d other bytes than the %d expected", len(found), len(expected))
	}
}

func fail(format string, arguments ...any) {
	panic(fmt.Sprintf(format, arguments...))
}
