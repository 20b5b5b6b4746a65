// SPDX-License-Identifier: Apache-2.0
'use strict';

const RECEIVE_MAX = 4100000; // bytes of a message; grpc-peer-client knows it

let running = 0;
let cancelled = 0;

function over(wasCancelled) {
  running--;
  cancelled += wasCancelled ? 1 : 0;
}

function same(call, reply) {
  reply(null, call.request);
}

function count(call) {
  const data = Buffer.alloc(call.request.size);
  let index = 0;
  let done = false;
  running++;
  call.on('cancelled', () => {
    if (!done) {
      done = true;
      over(true);
    }
  });
  const more = () => {
    while (!done && index < call.request.count) {
      if (!call.write({ data, index: index++ })) {
        call.once('drain', more);
        return;
      }
    }
    if (!done) {
      done = true;
      over(false);
      call.end();
    }
  };
  more();
}

function sum(call, reply) {
  let value = 0;
  call.on('data', (number) => { value += number.value; });
  call.on('end', () => reply(null, { value }));
}

function chat(call) {
  call.on('data', (text) => call.write(text));
  call.on('end', () => call.end());
}

function status(request) {
  return { code: request.code, details: request.message };
}

function failLate(call) {
  for (let i = 0; i < call.request.after; i++) call.write({ text: 'before' });
  call.emit('error', status(call.request));
}

function slow(call, reply) {
  running++;
  const timer = setTimeout(() => {
    over(false);
    reply(null, { text: 'at last' });
  }, call.request.milliseconds);
  call.on('cancelled', () => {
    clearTimeout(timer);
    over(true);
  });
}

exports.serve = (grpc, Peer, path) => {
  const server = new grpc.Server({ 'grpc.max_receive_message_length': RECEIVE_MAX });
  server.addService(Peer.service, {
    Say: same,
    Echo: same,
    Count: count,
    Sum: sum,
    Chat: chat,
    Fail: (call, reply) => reply(status(call.request)),
    FailLate: failLate,
    Slow: slow,
    Facts: (call, reply) => reply(null, { running, cancelled }),
  });
  server.bindAsync(`unix:${path}`, grpc.ServerCredentials.createInsecure(), (error) => {
    if (error) throw error;
    process.on('SIGTERM', () => server.tryShutdown(() => process.exit(0)));
    console.log('ready');
  });
};
