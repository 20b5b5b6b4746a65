// SPDX-License-Identifier: Apache-2.0
'use strict';

const TEXT = 'Grüße, 世界 😀';
const STATUS_TEXT = '100 % falsch: größer\n末\tEnde ';
const WAIT = 20000; // milliseconds, for anything

let grpc;
let Peer;
let path;
let server;

function expect(wanted, found, what) {
  if (wanted !== found) throw new Error(`${what}: ${found} instead of ${wanted}`);
}

// The name of a status, and the other way.
const nameOf = (code) => Object.keys(grpc.status).find((name) => grpc.status[name] === code);

async function expectStatus(wanted, promise) {
  try {
    await promise;
  } catch (error) {
    if (error.code !== wanted) {
      throw new Error(`${nameOf(error.code)} (${error.details || error}) instead of ${nameOf(wanted)}`);
    }
    return error.details;
  }
  throw new Error(`no error instead of ${nameOf(wanted)}`);
}

class Client {
  constructor(options = {}) {
    this.stub = new Peer(`unix:${path}`, grpc.credentials.createInsecure(),
      { 'grpc.use_local_subchannel_pool': 1, ...options });
  }

  // A unary call; `started` gets the call itself.
  call(method, request, { metadata, milliseconds, started } = {}) {
    return new Promise((resolve, reject) => {
      const call = this.stub[method](request, metadata || new grpc.Metadata(),
        { deadline: Date.now() + (milliseconds || WAIT) },
        (error, reply) => (error ? reject(error) : resolve(reply)));
      if (started) started(call);
    });
  }

  async say(text, options) {
    const reply = await this.call('Say', { text }, options);
    expect(text, reply.text, 'text');
  }

  count(count, size) {
    return this.stub.Count({ count, size }, { deadline: Date.now() + WAIT });
  }

  async expectFacts(running, cancelled) {
    for (const begin = Date.now(); ;) {
      const facts = await this.call('Facts', {});
      if (facts.running === running && facts.cancelled === cancelled) return;
      if (Date.now() - begin > WAIT) {
        throw new Error(`${facts.running} calls run at the server and ${facts.cancelled} were cancelled, ` +
          `instead of ${running} and ${cancelled}`);
      }
    }
  }

  async expectCount(count, size, between) {
    let index = 0;
    for await (const blob of this.count(count, size)) {
      expect(`${index} ${size}`, `${blob.index} ${blob.data.length}`, 'index and size');
      index++;
      if (between) await between();
    }
    expect(count, index, 'messages');
  }

  sum(numbers) {
    return new Promise((resolve, reject) => {
      const call = this.stub.Sum({ deadline: Date.now() + WAIT },
        (error, reply) => (error ? reject(error) : resolve(reply.value)));
      for (const value of numbers) call.write({ value });
      call.end();
    });
  }

  raw(method, bytes) {
    return new Promise((resolve, reject) => {
      this.stub.makeUnaryRequest(method, () => bytes, (data) => data, {}, new grpc.Metadata(),
        { deadline: Date.now() + WAIT }, (error, reply) => (error ? reject(error) : resolve(reply)));
    });
  }
}

const cases = {
  unary: (client) => client.say(TEXT),
  'empty message': (client) => client.say(''),
  async 'many calls'(client) {
    for (let i = 0; i < 1000; i++) await client.say('again');
  },
  'parallel calls': (client) => Promise.all(Array.from({ length: 300 }, (_, i) => client.say(String(i)))),
  'several connections': () => Promise.all(Array.from({ length: 20 }, async () => {
    const other = new Client();
    for (let i = 0; i < 20; i++) await other.say('one of many');
    other.stub.close();
  })),
  stream: (client) => client.expectCount(1000, 100),
  'empty stream': (client) => client.expectCount(0, 0),
  'slow reader': (client) => client.expectCount(120, 100000, () => client.say('meanwhile')),
  async 'client stream'(client) {
    const numbers = Array.from({ length: 2500 }, (_, i) => i - 500);
    expect(numbers.reduce((a, b) => a + b), await client.sum(numbers), 'sum');
  },
  async 'empty client stream'(client) {
    expect(0, await client.sum([]), 'sum');
  },
  // Each text is sent only after the answer to the one before.
  'both stream': (client) => new Promise((resolve, reject) => {
    const call = client.stub.Chat({ deadline: Date.now() + WAIT });
    let next = 0;
    const say = () => call.write({ text: `${next} ${TEXT}` });
    call.on('data', (reply) => {
      if (reply.text !== `${next} ${TEXT}`) reject(new Error(`said ${next}, heard ${reply.text}`));
      next++;
      if (next === 100) call.end();
      else say();
    });
    call.on('error', reject);
    call.on('end', () => (next === 100 ? resolve() : reject(new Error(`it ended after ${next}`))));
    say();
  }),
  async 'every status'(client) {
    for (let code = 1; code <= 16; code++) {
      const details = await expectStatus(code, client.call('Fail', { code, message: STATUS_TEXT }));
      expect(STATUS_TEXT, details, 'its message');
    }
  },
  async 'status after messages'(client) {
    let got = 0;
    const details = await expectStatus(grpc.status.FAILED_PRECONDITION, (async () => {
      const request = { code: 9, message: TEXT, after: 3 };
      for await (const _ of client.stub.FailLate(request, { deadline: Date.now() + WAIT })) got++;
    })());
    expect(TEXT, details, 'its message');
    expect(3, got, 'messages');
  },
  async deadline(client) {
    const { running, cancelled } = await client.call('Facts', {});
    const begin = Date.now();
    await expectStatus(grpc.status.DEADLINE_EXCEEDED,
      client.call('Slow', { milliseconds: 60000 }, { milliseconds: 200 }));
    const took = Date.now() - begin;
    if (took < 150 || took > 10000) throw new Error(`the deadline of 200 ms came after ${took} ms`);
    await client.expectFacts(running, cancelled + 1);
  },
  async cancel(client) {
    const { running, cancelled } = await client.call('Facts', {});
    let call;
    const ended = client.call('Slow', { milliseconds: 60000 }, { started: (started) => { call = started; } });
    const noted = expectStatus(grpc.status.CANCELLED, ended);
    await client.expectFacts(running + 1, cancelled);
    call.cancel();
    await noted;
    await client.expectFacts(running, cancelled + 1);
  },
  async 'cancel a stream'(client) {
    const { running, cancelled } = await client.call('Facts', {});
    const call = client.count(100000000, 1000);
    await expectStatus(grpc.status.CANCELLED, (async () => {
      let got = 0;
      for await (const _ of call) {
        if (++got === 10) call.cancel();
      }
    })());
    await client.expectFacts(running, cancelled + 1);
  },
  async 'large message'(client) {
    const data = Buffer.alloc(4000000, '0123456789');
    const reply = await client.call('Echo', { data, index: 7 });
    expect(true, data.equals(reply.data), 'the same bytes');
  },
  async 'message over the cap'(client) {
    for (const size of [4 << 20, 8 << 20]) {
      await expectStatus(grpc.status.RESOURCE_EXHAUSTED, client.call('Echo', { data: Buffer.alloc(size) }));
    }
    await client.say('afterwards');
  },
  async 'unknown method'(client) {
    for (const method of ['/peer.v1.Peer/Missing', '/peer.v1.Missing/Say', '/missing']) {
      await expectStatus(grpc.status.UNIMPLEMENTED, client.raw(method, Buffer.alloc(0)));
    }
    await client.say('afterwards');
  },
  async 'compressed request'(client) {
    const other = new Client({ 'grpc.default_compression_algorithm': grpc.compressionAlgorithms.gzip });
    await expectStatus(grpc.status.UNIMPLEMENTED, other.say('x'.repeat(10000)));
    other.stub.close();
    await client.say('afterwards');
  },
  async garbage(client) {
    for (const bytes of ['ffffff', '0a05616263', '0a02c080', '0a0100', '0801']) {
      await expectStatus(grpc.status.INTERNAL, client.raw('/peer.v1.Peer/Say', Buffer.from(bytes, 'hex')));
    }
    await client.say('afterwards');
  },
  async 'authority is the socket path'() {
    const other = new Client({ 'grpc.default_authority': path });
    await other.say(TEXT);
    other.stub.close();
  },
  async headers(client) {
    const metadata = new grpc.Metadata();
    metadata.set('x-name', 'value');
    metadata.set('x-bytes-bin', Buffer.from(Array.from({ length: 256 }, (_, i) => i)));
    await client.say(TEXT, { metadata });
  },
  async 'headers over the cap'(client) {
    const metadata = new grpc.Metadata();
    metadata.set('x-large', 'v'.repeat(60000));
    let taken = true;
    try {
      await client.say('large', { metadata });
    } catch (error) {
      taken = false;
    }
    expect(false, taken, '60 kB of headers were taken');
    await client.say('afterwards');
  },
  // The last one: a running call is finished, a later one is not taken.
  async shutdown(client) {
    const { running, cancelled } = await client.call('Facts', {});
    const call = client.call('Slow', { milliseconds: 1000 });
    await client.expectFacts(running + 1, cancelled);
    process.kill(server, 'SIGTERM');
    expect('at last', (await call).text, 'the running call');
    await expectStatus(grpc.status.UNAVAILABLE, (async () => {
      for (const begin = Date.now(); Date.now() - begin < WAIT;) await client.say('later');
    })());
  },
};

exports.ask = async (theGrpc, ThePeer, thePath, pid) => {
  [grpc, Peer, path, server] = [theGrpc, ThePeer, thePath, pid];
  const client = new Client();
  for (const [name, run] of Object.entries(cases)) {
    try {
      await run(client);
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`FAIL ${name}: ${String(error.message || error).split(/\s+/).join(' ')}`);
    }
  }
  process.exit(0);
};
