// SPDX-License-Identifier: Apache-2.0
// Of schemas.sh: what is asked in a conversation.
import {LEGACY, MODERN} from './conversation.mjs';

const MOST_HINTS = 60;
const LISTS = {'tools/list': 'ListToolsResult', 'resources/list': 'ListResourcesResult',
  'resources/templates/list': 'ListResourceTemplatesResult', 'prompts/list': 'ListPromptsResult'};
const CLIENT = {capabilities: {}, clientInfo: {name: 'mcp_schemas', version: '1'}};
const RESOURCE_NOT_FOUND = -32002;  // until 2025-11-25
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const HEADER_MISMATCH = -32020;
const UNSUPPORTED_VERSION = -32022;

export async function askEverything(conversation) {
  await (conversation.modern ? openModern(conversation) : openLegacy(conversation));
  const lists = {};
  for (const [method, definition] of Object.entries(LISTS)) {
    lists[method] = await conversation.ask(method, {}, definition);
    await conversation.ask(method, {cursor: ''}, definition);
    await conversation.refused(method, {cursor: 'nothing'}, INVALID_PARAMS);
  }
  conversation.addTools(lists['tools/list'].tools);
  await askTools(conversation);
  await askResources(conversation, lists['resources/list'].resources);
  await askPrompts(conversation, lists['prompts/list'].prompts);
  await askWhatItLacks(conversation);
  await sendMalformed(conversation);
  await (conversation.http ? sendOverHttp(conversation) : sendTogether(conversation));
  await conversation.close();
}

async function openLegacy(conversation) {
  if (!conversation.http) {
    await conversation.ask('ping', {}, 'EmptyResult');
    await conversation.refused('tools/list', {}, INVALID_PARAMS, {first: 'before initialize: '});
  }
  await conversation.refused('initialize', CLIENT, INVALID_PARAMS, {first: 'without a version: '});
  for (const protocolVersion of ['1999-01-01', LEGACY]) {
    await conversation.ask('initialize', {protocolVersion, ...CLIENT}, 'InitializeResult');
  }
  await conversation.exchange('notifications/initialized', {jsonrpc: '2.0', method: 'notifications/initialized'}, []);
  await conversation.ask('ping', {}, 'EmptyResult');
}

async function openModern(conversation) {
  await conversation.ask('server/discover', {}, 'DiscoverResult');
  const version = {'io.modelcontextprotocol/protocolVersion': MODERN};
  await conversation.refused('tools/list', {}, INVALID_PARAMS, {first: 'without a version: ', meta: {}});
  await conversation.refused('tools/list', {}, INVALID_PARAMS, {first: 'without capabilities: ', meta: version});
  await conversation.refused('server/discover', {}, UNSUPPORTED_VERSION, {first: 'another version: ',
    meta: {'io.modelcontextprotocol/protocolVersion': '2030-01-01', 'io.modelcontextprotocol/clientCapabilities': {}}});
}

/// Each tool, by the hints of answers and by its own schema.
async function askTools(conversation) {
  const right = new Map([...conversation.tools.keys()].map((tool) => [tool, []]));
  const call = async (tool, args, fails = false) => {
    const expected = {tool, fails};
    const result = await conversation.ask('tools/call', {name: tool, arguments: args}, 'CallToolResult', expected);
    if (!fails && result?.structuredContent) {
      right.get(tool).push(args);
    }
    return result;
  };
  const hints = [['health', {}], ['findings', {}], ['slowest', {}]];
  const asked = new Set();
  const follow = async (most) => {
    while (hints.length > 0 && asked.size < most) {
      const [tool, args] = hints.shift();
      const key = JSON.stringify([tool, args]);
      if (!asked.has(key)) {
        asked.add(key);
        const result = await call(tool, args);
        hints.push(...(result?.structuredContent?.next ?? []).map((hint) => [hint.tool, hint.arguments]));
      }
    }
  };
  await follow(MOST_HINTS);
  hints.splice(0, hints.length, ...['who_waits', 'ranks', 'links', 'stacks', 'findings', 'slowest', 'health'].map((tool) => [tool, {}]),
    ['ranks', {rank: 1}], ['links', {rank: 0}], ['slowest', {limit: 1, offset: 1}], ['who_waits', {time: '+1s'}],
    ['ranks', {rank: 1, from: '+1s', to: '+2s'}], ['compare', {a: {to: '+1s'}, b: {from: '+1s'}}],
    ['sql', {sql: 'SELECT * FROM collective', limit: 3}], ['sql', {sql: "SELECT 1, 0.5, 1e300, NULL, x'00ff', 'é', 1 << 62"}],
    ['sql', {sql: 'SELECT 1 WHERE 0'}]);
  await follow(3 * MOST_HINTS);
  for (const [tool, {inputSchema}] of conversation.tools) {
    if (right.get(tool).length === 0) {
      conversation.compare(tool, {'answered with these recordings': [false, true]});
      continue;
    }
    const usual = right.get(tool)[0];
    for (const args of variants(inputSchema, usual)) {
      await call(tool, args);
    }
    for (const args of wrongArguments(inputSchema, usual)) {
      await refusedArguments(conversation, call, tool, args, false);
    }
  }
  const meaningless = [['finding', {id: 'packet_loss-00000000'}], ['why', {event: '1:0'}], ['why', {event: 'x'}],
    ['who_waits', {time: 'noon'}], ['who_waits', {time: '+99999s'}], ['ranks', {from: '+2s', to: '+1s'}], ['ranks', {rank: 99999}],
    ['sql', {sql: 'DELETE FROM collective'}], ['sql', {sql: 'SELEC'}], ['sql', {sql: ''}],
    ['sql', {sql: 'SELECT 1', recording: 'nothing.db'}],
    ['sql', {sql: 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n', timeout_s: 1}]];
  for (const [tool, args] of meaningless) {
    await refusedArguments(conversation, call, tool, args, true);
  }
  await askOddValues(conversation, call);
  await conversation.refused('tools/call', {name: 'nothing', arguments: {}}, INVALID_PARAMS);
  await conversation.refused('tools/call', {arguments: {}}, INVALID_PARAMS);
  await conversation.refused('tools/call', {name: 7}, noText(conversation));
  await conversation.refused('tools/call', {name: 'health', arguments: []}, INVALID_PARAMS);
  await conversation.ask('tools/call', {name: 'health', _meta: {progressToken: 'p'}}, 'CallToolResult', {tool: 'health'});
}

/// A failure of the tool. Only what its inputSchema refuses is called a wrong argument.
async function refusedArguments(conversation, call, tool, args, valid) {
  const result = await call(tool, args, true);
  const wrong = Boolean(result?.content?.[0]?.text.includes('wrong arguments: '));
  conversation.compare(`${tool} ${JSON.stringify(args)}`, {
    'valid for the inputSchema': [conversation.takes(tool, args), valid], 'called a wrong argument': [wrong, !valid]});
}

/// JSON Schema takes 2.0 and 2e0 for integers, and counts characters, not bytes.
async function askOddValues(conversation, call) {
  for (const written of ['2.0', '2e0']) {
    const request = conversation.request('tools/call', {name: 'slowest', arguments: {limit: 2}});
    const text = JSON.stringify(request).replace('"limit":2', `"limit":${written}`);
    const expected = {id: request.id, definition: 'CallToolResult', tool: 'slowest'};
    const headers = conversation.headersOf(request);
    await conversation.exchange(`tools/call slowest {"limit":${written}}`, text, [expected], {headers});
  }
  for (const character of ['é', '€', '😀']) {
    await refusedArguments(conversation, call, 'who_waits', {time: character.repeat(64)}, true);
    await refusedArguments(conversation, call, 'who_waits', {time: character.repeat(65)}, false);
  }
}

/// A name that is no text: no header can repeat it.
function noText(conversation) {
  return conversation.http && conversation.modern ? HEADER_MISMATCH : INVALID_PARAMS;
}

/// The usual arguments with each value of each enumeration, and with the least and most of each number.
function variants(schema, usual) {
  return Object.entries(schema.properties ?? {}).flatMap(([name, {type, enum: values, minimum, maximum}]) => {
    const ends = type === 'integer' && !['rank', 'timeout_s'].includes(name) ? [minimum, maximum] : [];
    const numbers = ends.filter((end) => end !== undefined);
    return [...(values ?? []), ...numbers, ...(type === 'boolean' ? [true, false] : [])].map((value) => ({...usual, [name]: value}));
  });
}

function wrongArguments(schema, usual) {
  const others = {string: [17, null, ['a']], integer: ['two', 1.5, null, true], boolean: ['yes', 1], object: ['no', []], array: [{}]};
  const wrong = [{...usual, nothing: 1}];
  for (const [name, {type, enum: values, minimum, maximum, maxLength}] of Object.entries(schema.properties ?? {})) {
    const outside = [minimum - 1, maximum + 1].filter((number) => !Number.isNaN(number));
    const long = maxLength === undefined ? [] : ['x'.repeat(maxLength + 1)];
    wrong.push(...[...others[type], ...outside, ...long, ...(values ? ['nothing'] : [])].map((value) => ({...usual, [name]: value})));
  }
  for (const name of schema.required ?? []) {
    const {[name]: _, ...rest} = usual;
    wrong.push(rest);
  }
  return wrong;
}

async function askResources(conversation, resources) {
  const causes = conversation.tools.get('findings').inputSchema.properties.cause.enum;
  for (const uri of [...resources.map((one) => one.uri), ...causes.map((cause) => `stalltrace://causes/${cause}`)]) {
    await conversation.ask('resources/read', {uri}, 'ReadResourceResult');
  }
  const missing = conversation.modern ? INVALID_PARAMS : RESOURCE_NOT_FOUND;
  await conversation.refused('resources/read', {uri: 'stalltrace://nothing'}, missing);
  await conversation.refused('resources/read', {uri: 'stalltrace://causes/nothing'}, missing);
  await conversation.refused('resources/read', {}, INVALID_PARAMS);
  await conversation.refused('resources/read', {uri: 7}, noText(conversation));
}

async function askPrompts(conversation, prompts) {
  for (const {name, arguments: [{name: argument}]} of prompts) {
    await conversation.ask('prompts/get', {name}, 'GetPromptResult');
    await conversation.ask('prompts/get', {name, arguments: {[argument]: 'since noon: "é" \n \u0007'}}, 'GetPromptResult');
    await conversation.refused('prompts/get', {name, arguments: {nothing: 'x'}}, INVALID_PARAMS);
    await conversation.refused('prompts/get', {name, arguments: {[argument]: 7}}, INVALID_PARAMS);
  }
  await conversation.refused('prompts/get', {name: 'nothing'}, INVALID_PARAMS);
  await conversation.refused('prompts/get', {}, INVALID_PARAMS);
}

/// Methods that no capability of the server offers, and those of the other version.
async function askWhatItLacks(conversation) {
  const others = conversation.modern ? ['subscriptions/listen'] :
    ['server/discover', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe', 'tasks/list', 'tasks/get'];
  for (const method of ['nonsense', '', 'é\u0000', 'x'.repeat(200), 'completion/complete', 'tools/List', ...others]) {
    const plain = conversation.http && conversation.modern && /[^ -~]/.test(method);  // the header can't repeat it
    await conversation.refused(method, {}, plain ? HEADER_MISMATCH : METHOD_NOT_FOUND, plain ? {headers: {'Mcp-Method': 'x'}} : {});
  }
  if (conversation.modern && !conversation.http) {
    await conversation.refused('ping', {}, METHOD_NOT_FOUND);
    await conversation.refused('initialize', {protocolVersion: LEGACY, ...CLIENT}, METHOD_NOT_FOUND);
  }
  const quiet = ['notifications/cancelled', 'notifications/progress', 'notifications/nothing'];
  for (const method of quiet) {
    await conversation.exchange(`${method}, which is never answered`, {jsonrpc: '2.0', method, params: {requestId: 99999}}, []);
  }
  await conversation.exchange('an answer that was not asked for', {jsonrpc: '2.0', id: 1, result: {}}, []);
}

async function sendMalformed(conversation) {
  const ping = (changes) => JSON.stringify({jsonrpc: '2.0', id: 7, method: 'tools/list', ...changes});
  const sent = [
    ['not JSON', '{', PARSE_ERROR], ['not JSON', 'nonsense', PARSE_ERROR], ['text after JSON', '{} {}', PARSE_ERROR],
    ['not UTF-8', Buffer.from([0x22, 0xff, 0xfe, 0x22]), PARSE_ERROR], ['a NUL', Buffer.from([0]), PARSE_ERROR],
    ['100,000 levels', '['.repeat(100_000), PARSE_ERROR],
    ['half a surrogate', '{"jsonrpc":"2.0","id":"\\ud800","method":"x"}', PARSE_ERROR],
    ['a text', '"text"', INVALID_REQUEST], ['a number', '17', INVALID_REQUEST], ['null', 'null', INVALID_REQUEST],
    ['an empty array', '[]', INVALID_REQUEST], ['an array of messages', `[${ping({})}]`, INVALID_REQUEST],
    ['an empty object', '{}', INVALID_REQUEST], ['jsonrpc 1.0', ping({jsonrpc: '1.0'}), INVALID_REQUEST, 7],
    ['no jsonrpc', ping({jsonrpc: undefined}), INVALID_REQUEST, 7], ['the id null', ping({id: null}), INVALID_REQUEST],
    ['the id 1.5', ping({id: 1.5}), INVALID_REQUEST], ['the id an object', ping({id: {}}), INVALID_REQUEST],
    ['no method', ping({method: undefined}), INVALID_REQUEST, 7], ['a number as method', ping({method: 7}), INVALID_REQUEST, 7],
    ['a text as id', ping({id: 'é', method: undefined}), INVALID_REQUEST, 'é'],
    ['params an array', ping({params: []}), INVALID_PARAMS, 7], ['params a text', ping({params: 'x'}), INVALID_PARAMS, 7],
  ];
  for (const [what, bytes, code, id] of sent) {
    await conversation.exchange(what, bytes, [{id, code}]);
  }
}

/// Over pipes: several lines at once, of which some wait.
async function sendTogether(conversation) {
  await conversation.exchange('2 MiB', 'x'.repeat(2 << 20), [{code: INVALID_REQUEST}]);
  const first = conversation.request('tools/list');
  await conversation.exchange('one id twice', [first, first],
    [{code: INVALID_REQUEST}, {id: first.id, definition: 'ListToolsResult'}]);
  const cancelled = conversation.request('tools/call', {name: 'health', arguments: {}});
  const kept = conversation.request('prompts/list');
  await conversation.exchange('a request, one that is cancelled',
    [kept, cancelled, {jsonrpc: '2.0', method: 'notifications/cancelled', params: {requestId: cancelled.id}}],
    [{id: kept.id, definition: 'ListPromptsResult'}]);
}

async function sendOverHttp(conversation) {
  if (conversation.modern) {
    const wrong = [{'Mcp-Method': 'tools/call'}, {'Mcp-Method': null}, {'MCP-Protocol-Version': LEGACY}, {'MCP-Protocol-Version': null}];
    for (const headers of wrong) {
      await conversation.refused('tools/list', {}, HEADER_MISMATCH, {headers, first: `${JSON.stringify(headers)}: `});
    }
    for (const headers of [{'Mcp-Name': 'findings'}, {'Mcp-Name': null}]) {
      await conversation.refused('tools/call', {name: 'health'}, HEADER_MISMATCH, {headers, first: `${JSON.stringify(headers)}: `});
    }
    await conversation.refused('ping', {}, METHOD_NOT_FOUND);
  } else {
    const headers = {'MCP-Protocol-Version': '1999-01-01'};
    await conversation.refused('tools/list', {}, UNSUPPORTED_VERSION, {headers, first: 'another version: '});
  }
  await conversation.status('GET', 405, {}, 'GET');
  await conversation.status('DELETE', 405, {}, 'DELETE');
  await conversation.status('no token', 401, {Authorization: null});
  await conversation.status('an Origin', 403, {Origin: 'http://example.com'});
  await conversation.status('text/plain', 415, {'Content-Type': 'text/plain'});
  await conversation.status('Accept: text/html', 406, {Accept: 'text/html'});
}
