// SPDX-License-Identifier: Apache-2.0
// Of schemas.sh: one client in one version over one transport. Each message of the server is compared with the definition of what it
// answers, and counted.

export const MODERN = '2026-07-28';
export const LEGACY = '2025-11-25';

const META = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': {name: 'mcp_schemas', version: '1'},
};
/// What the schema of 2026-07-28 has of errors: the whole message, or what is under `error`.
const ERRORS = {[-32020]: 'HeaderMismatchError', [-32022]: 'UnsupportedProtocolVersionError'};
const ERROR_BODIES = {[-32700]: 'ParseError', [-32600]: 'InvalidRequestError', [-32601]: 'MethodNotFoundError',
  [-32602]: 'InvalidParamsError', [-32603]: 'InternalError'};
const NAMED = {'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri'};
const utf8 = new TextDecoder('utf-8', {fatal: true});

/// What was found by all conversations.
export class Findings {
  messages = new Map();  // version and definition -> transport -> count
  tools = new Map();  // "health answers" -> count
  problems = [];
  unknown = new Map();  // path -> times
  samples = new Map();  // one message of each kind

  count(version, definition, transport) {
    const key = `${version} ${definition}`;
    const row = this.messages.get(key) ?? {};
    this.messages.set(key, {...row, [transport]: (row[transport] ?? 0) + 1});
  }
}

export class Conversation {
  #schemas;
  #transport;
  #findings;
  #lastId = 0;

  constructor(schemas, version, transport, name, findings) {
    this.#schemas = schemas;
    this.version = version;
    this.#transport = transport;
    this.name = name;  // of the transport: "pipes"
    this.#findings = findings;
    this.modern = version === MODERN;
    this.http = transport.http;
    this.tools = new Map();
  }

  /// A request that the schema knows; its result, which is valid for `definition`. `expected.tool`: whose answer it is.
  async ask(method, params, definition, expected = {}) {
    const request = this.request(method, params);
    const known = `${this.version}#/$defs/${definition.replace(/Result$/, '')}Request`;
    const own = this.#schemas.has(known) ? this.#schemas.problems(request, known) : [];
    const [message] = await this.exchange(`${method} ${shown(params)}`, request, [{id: request.id, definition, ...expected}], {own});
    return message?.result;
  }

  /// A request that is answered by an error of the protocol.
  async refused(method, params, code, {headers, meta, first = ''} = {}) {
    const request = this.request(method, params, meta);
    await this.exchange(`${first}${method} ${shown(params)}`, request, [{id: request.id, code}], {headers});
  }

  request(method, params = {}, meta = this.modern ? META : null) {
    return {jsonrpc: '2.0', id: ++this.#lastId, method, params: {...params, ...(meta && {_meta: {...meta, ...params._meta}})}};
  }

  /// Sends a message, bytes, or several messages, and compares what comes with `expected`, in this order.
  async exchange(what, sent, expected, {headers, own = []} = {}) {
    const messages = Buffer.isBuffer(sent) || typeof sent === 'string' ? sent : [sent].flat().map((one) => JSON.stringify(one)).join('\n');
    const answer = await this.#transport.exchange(messages, expected.length, {...this.headersOf(sent), ...headers});
    if (this.http) {
      own = [...own, ...this.#problemsOfHttp(answer, expected)];
    }
    if (answer.messages.length !== expected.length) {
      own = [...own, `${answer.messages.length} messages instead of ${expected.length}`];
    }
    if (answer.messages.length === 0) {
      this.#print(what, 'no message', own);
    }
    return answer.messages.map((bytes, number) => this.#judge(what, bytes, expected[number] ?? {}, own));
  }

  /// Over HTTP: a request that is refused by a status, before MCP.
  async status(what, status, headers, method = 'POST') {
    const answer = await this.#transport.exchange(JSON.stringify(this.request('tools/list')), 0, headers, method);
    this.#print(what, `HTTP status ${answer.status}, no message of MCP`, answer.status === status ? [] : [`${answer.status}`]);
  }

  /// Takes the tools of tools/list: their schemas have to be JSON Schema 2020-12.
  addTools(tools) {
    for (const tool of tools) {
      const problems = [];
      for (const [side, schema] of [['input', tool.inputSchema], ['output', tool.outputSchema]]) {
        try {
          this.#schemas.add(this.toolSchema(tool.name, side), schema);
        } catch (error) {
          problems.push(`${side}Schema: ${error.message}`);
        }
      }
      this.tools.set(tool.name, tool);
      this.#print(`${tool.name}: inputSchema, outputSchema`, 'JSON Schema 2020-12', problems);
    }
  }

  toolSchema(tool, side) {
    return `${this.version}/${this.name.replaceAll(' ', '-')}/${tool}/${side}`;
  }

  /// Facts, each with its value and the one that it should have.
  compare(what, facts) {
    const wrong = Object.entries(facts).filter(([, [is, should]]) => is !== should).map(([fact, [is]]) => `${fact}: ${is}`);
    if (wrong.length > 0) {
      this.#print(what, 'the schema and the server disagree', wrong);
    }
  }

  takes(tool, args) {
    return this.#schemas.problems(args, this.toolSchema(tool, 'input')).length === 0;
  }

  /// What comes at the end and was not asked for.
  async close() {
    const {code, rest} = await this.#transport.close();
    const problems = [...(code === 0 ? [] : [`exit code ${code}`]), ...rest.map((line) => `not asked for: ${line}`)];
    this.#print('the end', 'no message', problems);
  }

  /// Those that a message needs over HTTP.
  headersOf(sent) {
    const method = sent?.method;
    if (!this.http || (!this.modern && method === 'initialize')) {
      return {};
    }
    const version = {'MCP-Protocol-Version': sent?.params?._meta?.['io.modelcontextprotocol/protocolVersion'] ?? this.version};
    const name = sent?.params?.[NAMED[method]];
    const text = typeof name === 'string' ? {'Mcp-Name': name} : {};
    return this.modern && typeof method === 'string' ? {...version, 'Mcp-Method': method, ...text} : version;
  }

  #problemsOfHttp({status, type, messages}, expected) {
    const right = expected.length === 0 ? [202] : expected.some(({code}) => code) ? [200, 400, 404] : [200];
    const isJson = messages.length === 0 || type === 'application/json';
    return [...(right.includes(status) ? [] : [`HTTP status ${status}`]), ...(isJson ? [] : [`a body of ${type}`])];
  }

  #judge(what, bytes, expected, own) {
    let message;
    try {
      message = JSON.parse(utf8.decode(bytes));
    } catch (error) {
      this.#print(what, 'no JSON', [...own, error.message]);
      this.#findings.count(this.version, 'no JSON', this.name);
      return undefined;
    }
    const references = this.#referencesOf(expected);
    const problems = [...own, ...this.#refusals(message, references), ...this.#otherProblems(message, expected)];
    const unknown = this.#unknown(message, references, expected);
    for (const path of unknown) {
      const key = `${this.version} ${references.at(-1).name} ${path.replaceAll(/\.\d+\b/g, '[]')}`;
      this.#findings.unknown.set(key, (this.#findings.unknown.get(key) ?? 0) + 1);
    }
    const name = expected.code ? `error ${expected.code}` : expected.definition;
    const kind = `${this.version}, ${name}${expected.tool ? ` of ${expected.tool}` : ''}`;
    if (expected.tool) {
      const key = `${expected.tool} ${expected.fails ? 'failures' : 'answers'}`;
      this.#findings.tools.set(key, (this.#findings.tools.get(key) ?? 0) + 1);
    }
    if (problems.length === 0 && !expected.fails && !this.#findings.samples.has(kind)) {
      this.#findings.samples.set(kind, {message, references, conversation: this, expected});
    }
    this.#print(what, `${name}, ${bytes.length} bytes`, problems);
    this.#findings.count(this.version, name, this.name);
    return message;
  }

  /// The definitions that a message has to be valid for, the last one the most special; each with the part that it is about.
  #referencesOf({code, definition, tool, fails}) {
    const of = (name, part = (message) => message, at = []) => ({name, reference: `${this.version}#/$defs/${name}`, part, at});
    const general = [of('JSONRPCMessage'), of('JSONRPCResponse')];
    if (code) {
      const whole = this.modern && ERRORS[code] ? [of(ERRORS[code])] : [];
      const body = this.modern && ERROR_BODIES[code] ? [of(ERROR_BODIES[code], (message) => message.error, ['error'])] : [];
      return [...general, ...whole, ...body, of('JSONRPCErrorResponse')];
    }
    const result = (message) => message.result;
    const special = this.#schemas.has(`${this.version}#/$defs/${definition}Response`) ? [of(`${definition}Response`)] : [];
    const answer = {name: `${tool}'s outputSchema`, reference: this.toolSchema(tool, 'output'),
      part: (message) => message.result?.structuredContent, at: ['result', 'structuredContent']};
    return [...general, of('JSONRPCResultResponse'), ...special, of('ServerResult', result, ['result']),
      ...(tool && !fails ? [answer] : []), of(definition, result, ['result'])];
  }

  #refusals(message, references) {
    return references.flatMap(({reference, part}) => {
      const value = part(message);
      return value === undefined ? [`${reference}: there is no such part`] : this.#schemas.problems(value, reference);
    });
  }

  #otherProblems(message, {id, code, tool, fails}) {
    const problems = [];
    if (message.id !== id) {
      problems.push(`the id is ${message.id}, not ${id}`);
    }
    if (code && message.error?.code !== code) {
      problems.push(`the code is ${message.error?.code}, not ${code}: ${message.error?.message}`);
    }
    if (this.modern && message.result && message.result.resultType !== 'complete') {
      problems.push(`resultType is ${message.result.resultType}`);
    }
    if (tool && Boolean(message.result?.isError) !== Boolean(fails)) {
      problems.push(`isError is ${message.result?.isError}: ${message.result?.content?.[0]?.text}`);
    }
    return problems;
  }

  /// Members that no schema lists. A tool's schemas are JSON Schema, which has its own check.
  #unknown(message, references, {code}) {
    const isSchema = (path) => ['inputSchema', 'outputSchema'].includes(path.at(-1));
    const envelope = code ? 'JSONRPCErrorResponse' : 'JSONRPCResultResponse';
    const parts = code ? [] : references.filter(({name, at}) => at.length > 0 && name !== 'ServerResult');
    return [
      ...this.#schemas.unknown(message, `${this.version}#/$defs/${envelope}`, (path) => path[0] === 'result'),
      ...parts.flatMap(({reference, part, at}) =>
        this.#schemas.unknown(part(message) ?? {}, reference, isSchema).map((path) => [...at, path].join('.'))),
    ];
  }

  /// Breaks a message in every way in which a schema can be missed: without each required member, and with a foreign one.
  /// Returns how many were broken, and those that were not noticed.
  breakOnPurpose({message, references, expected}) {
    const unnoticed = [];
    const paths = new Set(references.flatMap(({reference, part, at}) =>
      this.#schemas.required(part(message), reference).map((path) => JSON.stringify([...at, ...path]))));
    for (const path of paths) {
      const broken = structuredClone(message);
      const {owner, name} = ownerOf(broken, JSON.parse(path));
      delete owner[name];
      if (this.#refusals(broken, references).length === 0) {
        unnoticed.push(`without ${path}`);
      }
    }
    const owners = [(one) => one, (one) => one.result ?? one.error, ...(expected.tool ? [(one) => one.result.structuredContent] : [])];
    for (const owner of owners) {
      const foreign = structuredClone(message);
      owner(foreign).foreign = 1;
      if (!this.#unknown(foreign, references, expected).some((path) => path.endsWith('foreign'))) {
        unnoticed.push(`a foreign member of ${owner}`);
      }
    }
    const wrong = structuredClone(message);
    wrong.result === undefined ? (wrong.error.code = 'x') : (wrong.result._meta = 'x');
    if (this.#refusals(wrong, references).length === 0) {
      unnoticed.push('a member of a wrong type');
    }
    return {broken: paths.size + owners.length + 1, unnoticed};
  }

  #print(what, name, problems) {
    const asked = JSON.stringify(what.trim().slice(0, 110)).slice(1, -1).replaceAll('\\"', '"');
    const line = `${this.version} ${this.name.padEnd(14)} ${asked}: ${name}`;
    console.log(problems.length === 0 ? line : `${line}\n  WRONG: ${problems.join('\n  WRONG: ')}`);
    this.#findings.problems.push(...problems.map((problem) => `${line}: ${problem}`));
  }
}

function ownerOf(value, path) {
  const owner = path.slice(0, -1).reduce((at, name) => at[name], value);
  return {owner, name: path.at(-1)};
}

function shown(params = {}) {
  const {name, uri, arguments: args, ...others} = params;
  return [name, uri, args && JSON.stringify(args), Object.keys(others).length > 0 && JSON.stringify(others)].filter(Boolean).join(' ');
}
