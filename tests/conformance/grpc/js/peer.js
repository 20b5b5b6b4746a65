// SPDX-License-Identifier: Apache-2.0
// A peer of peer.proto on grpc-js:
//
//   node peer.js server PROTO SOCKET
//   node peer.js client PROTO SOCKET SERVER-PID
//
// The client prints "ok NAME" or "FAIL NAME: why" for each case.
'use strict';

const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [role, proto, path, pid] = process.argv.slice(2);
const definition = loader.loadSync(proto, { keepCase: true, longs: Number, defaults: true });
const Peer = grpc.loadPackageDefinition(definition).peer.v1.Peer;

if (role === 'server') {
  require('./server.js').serve(grpc, Peer, path);
} else {
  require('./client.js').ask(grpc, Peer, path, Number(pid));
}
