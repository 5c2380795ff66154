// What the package `memcached` of npm does with a server: HOST:PORT. Prints `ok`, or says what is wrong.
const assert = require('node:assert');
const { promisify } = require('node:util');
const Memcached = require('memcached');

const LARGE_BYTES = 900_000;
const CONNECTIONS = 200;

/** A client with one connection, whose calls give promises; `undefined` is a miss. */
function connect(server) {
  const client = new Memcached(server, { poolSize: 1, timeout: 10_000, retries: 0 });
  const call = (name) => promisify(client[name]).bind(client);
  return {
    add: call('add'), append: call('append'), cas: call('cas'), decr: call('decr'), del: call('del'), get: call('get'),
    getMulti: call('getMulti'), gets: call('gets'), incr: call('incr'), prepend: call('prepend'),
    replace: call('replace'), set: call('set'), stats: call('stats'), touch: call('touch'), version: call('version'),
    end: () => client.end(),
  };
}

async function values(client) {
  assert.strictEqual(await client.set('a:key', 'value', 0), true);
  assert.strictEqual(await client.get('a:key'), 'value');
  assert.strictEqual(await client.get('a:none'), undefined);
  await assert.rejects(client.add('a:key', 'other', 0));
  assert.strictEqual(await client.replace('a:key', 'middle', 0), true);
  assert.strictEqual(await client.append('a:key', '-end'), true);
  assert.strictEqual(await client.prepend('a:key', 'begin-'), true);
  assert.strictEqual(await client.get('a:key'), 'begin-middle-end');
  const keys = Array.from({ length: 500 }, (_, number) => `b:${number}`);
  await Promise.all(keys.map((key) => client.set(key, key, 0)));
  const found = await client.getMulti([...keys, 'b:none']);
  assert.deepStrictEqual({ ...found }, Object.fromEntries(keys.map((key) => [key, key])));
  const large = Buffer.from(Array.from({ length: LARGE_BYTES }, (_, index) => (index * 31) % 101));
  await client.set('c:large', large, 0);
  assert.ok(large.equals(await client.get('c:large')));
  assert.strictEqual(await client.touch('a:key', 1_000), true);
  assert.strictEqual(await client.del('a:key'), true);
  assert.strictEqual(await client.del('a:key'), false);
}

async function versions(client) {
  await client.set('a:cas', 'one', 0);
  const { cas } = await client.gets('a:cas');
  assert.strictEqual(await client.cas('a:cas', 'two', cas, 0), true);
  assert.strictEqual(await client.cas('a:cas', 'three', cas, 0), false);
  assert.strictEqual(await client.get('a:cas'), 'two');
}

async function counters(client) {
  await client.set('a:count', 9, 0);
  assert.strictEqual(await client.incr('a:count', 2), 11);
  assert.strictEqual(await client.decr('a:count', 100), 0);
  assert.strictEqual(await client.incr('a:none', 1), false);
}

async function manyConnections(server) {
  const clients = Array.from({ length: CONNECTIONS }, () => connect(server));
  await Promise.all(clients.map((client, number) => client.set(`a:${number}`, `${number}`, 0)));
  const found = await Promise.all([...clients].reverse().map((client, number) => client.get(`a:${number}`)));
  assert.deepStrictEqual(found, clients.map((_, number) => `${number}`));
  clients.forEach((client) => client.end());
}

async function main() {
  const server = process.argv[2];
  const client = connect(server);
  await values(client);
  await versions(client);
  await counters(client);
  assert.ok((await client.version())[0].version);
  assert.ok('curr_items' in (await client.stats())[0]);
  client.end();
  await manyConnections(server);
  console.log('ok');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
