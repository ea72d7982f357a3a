// SPDX-License-Identifier: Apache-2.0
// Of schemas.sh: a server over pipes, and one over HTTP. Bytes go in and come out as they are.
import {spawn} from 'node:child_process';

const WAIT_MS = 60_000;

/// `PROGRAM mcp ...`
export class Pipes {
  #process;
  #lines = [];
  #wake = () => {};
  #rest = Buffer.alloc(0);
  http = false;

  constructor(program, words) {
    this.#process = spawn(program, ['mcp', ...words], {stdio: ['pipe', 'pipe', 'inherit']});
    this.ended = new Promise((done) => this.#process.on('close', done));
    this.#process.stdout.on('data', (bytes) => {
      this.#rest = Buffer.concat([this.#rest, bytes]);
      for (let end; (end = this.#rest.indexOf(10)) >= 0;) {
        this.#lines.push(this.#rest.subarray(0, end));
        this.#rest = this.#rest.subarray(end + 1);
      }
      this.#wake();
    });
  }

  /// Sends what may be several lines, and returns as many lines as `answers` states.
  async exchange(bytes, answers) {
    this.#process.stdin.write(Buffer.concat([Buffer.from(bytes), Buffer.from('\n')]));
    const late = AbortSignal.timeout(WAIT_MS);
    while (this.#lines.length < answers) {
      await new Promise((done, failed) => {
        this.#wake = done;
        late.addEventListener('abort', () => failed(new Error('no answer')));
      });
    }
    return {messages: this.#lines.splice(0, answers)};
  }

  /// What it wrote that no request asked for, at its end.
  async close() {
    this.#process.stdin.end();
    const code = await this.ended;
    return {code, rest: [...this.#lines, ...(this.#rest.length > 0 ? [this.#rest] : [])]};
  }
}

/// One POST a message. The headers of 2026-07-28 repeat parts of the message.
export class Http {
  #url;
  #usual;
  http = true;

  constructor(url, usual) {
    this.#url = url;
    this.#usual = {'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...usual};
  }

  async exchange(bytes, answers, headers = {}, method = 'POST') {
    const all = Object.entries({...this.#usual, ...headers}).filter(([, value]) => value !== null);
    const answer = await fetch(this.#url, {method, headers: all, body: method === 'GET' ? undefined : Buffer.from(bytes),
      signal: AbortSignal.timeout(WAIT_MS)});
    const body = Buffer.from(await answer.arrayBuffer());
    const type = (answer.headers.get('content-type') ?? '').split(';')[0];
    return {status: answer.status, type, messages: body.length === 0 ? [] : [body]};
  }

  async close() {
    return {code: 0, rest: []};
  }
}

/// `PROGRAM serve RECORDING ...` at a port that the kernel chose.
export async function startServer(program, recordings, tokenFile) {
  const serving = spawn(program, ['serve', ...recordings, '--listen', '127.0.0.1:0', '--token-file', tokenFile],
    {stdio: ['ignore', 'ignore', 'pipe']});
  let output = '';
  for await (const bytes of serving.stderr) {
    output += bytes;
    const found = output.match(/http:\/\/(\S+:\d+)/);
    if (found) {
      return {serving, address: found[1]};
    }
  }
  throw new Error(`it does not serve: ${output}`);
}
