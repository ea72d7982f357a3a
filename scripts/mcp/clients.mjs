// SPDX-License-Identifier: Apache-2.0
// Of clients.sh: the official TypeScript clients ask everything that `PROGRAM mcp RECORDING ...` offers, and `PROGRAM serve` over HTTP.
// The clients compare each structured answer with the tool's output schema, and fail if it does not match.
import {spawn} from 'node:child_process';
import {Client as LegacyClient} from '@modelcontextprotocol/sdk/client/index.js';
import {StdioClientTransport as LegacyTransport} from '@modelcontextprotocol/sdk/client/stdio.js';
import {StreamableHTTPClientTransport as LegacyHttp} from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {Client as ModernClient, StreamableHTTPClientTransport as ModernHttp} from '@modelcontextprotocol/client';
import {StdioClientTransport as ModernTransport} from '@modelcontextprotocol/client/stdio';

const [program, ...recordings] = process.argv.slice(2);
const server = {command: program, args: ['mcp', ...recordings], stderr: 'inherit'};
const about = {name: 'mcp_clients', version: '1'};

function expect(condition, what) {
  if (!condition) {
    throw new Error(what);
  }
}

async function ask(name, client, transport) {
  const problems = [];
  client.onerror = (error) => problems.push(error);
  await client.connect(transport);
  const version = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? '';
  expect(client.getServerVersion()?.name === 'stalltrace', 'server name');
  expect((client.getInstructions() ?? '').includes('health'), 'instructions');
  const {tools} = await client.listTools();
  const called = [];
  const call = async (tool, args) => {
    const result = await client.callTool({name: tool, arguments: args});
    expect(!result.isError, `${tool}: ${JSON.stringify(result.content)}`);
    expect(JSON.stringify(result.structuredContent) === JSON.stringify(JSON.parse(result.content[1].text)), `${tool}: the texts differ`);
    called.push(`${tool} ${result.content[1].text.length} bytes`);
    return result.structuredContent;
  };
  await call('health', {});
  const found = await call('findings', {});
  const slow = await call('slowest', {by: 'wait_for_last_rank', limit: 3});
  const events = {finding: found.findings[0] && {id: found.findings[0].id}, why: {event: slow.instances[0].event}};
  const others = {
    sql: {sql: 'SELECT op, count(*) AS calls FROM nccl_events GROUP BY op'},
    compare: {a: {to: '+1s'}, b: {from: '+1s'}},
    ranks: {rank: slow.instances[0].last_rank.rank},
  };
  for (const {name: tool} of tools) {
    if (tool === 'finding' && !events.finding) {
      continue;  // a healthy job has none
    }
    await call(tool, events[tool] ?? others[tool] ?? {});
  }
  const wrong = await client.callTool({name: 'ranks', arguments: {rank: 'two'}});
  expect(wrong.isError === true, 'a wrong argument is an error of the tool');
  const unknown = await client.callTool({name: 'nothing', arguments: {}}).then(() => null, (error) => error);
  expect(unknown && unknown.code === -32602, `an unknown tool: ${unknown}`);
  const {resources} = await client.listResources();
  for (const {uri} of resources) {
    const {contents} = await client.readResource({uri});
    expect(contents[0].text.length > 1000, uri);
  }
  const {resourceTemplates} = await client.listResourceTemplates();
  const cause = await client.readResource({uri: 'stalltrace://causes/packet_loss'});
  expect(cause.contents[0].text.includes('packet_loss'), 'a cause');
  const {prompts} = await client.listPrompts();
  for (const prompt of prompts) {
    const {messages} = await client.getPrompt({name: prompt.name, arguments: {[prompt.arguments[0].name]: 'x'}});
    expect(messages.length === 1, prompt.name);
  }
  await client.close();
  expect(problems.length === 0, `${name}: ${problems.join('; ')}`);
  console.log(`${name}: ${version} ${tools.length} tools, ${resources.length} resources, ${resourceTemplates.length} template, ${prompts.length} prompts`);
  console.log(`  ${called.slice(3).join(', ')}`);
}

/// `PROGRAM serve RECORDING ...` at a port that the kernel chose.
async function startServer(token) {
  const serving = spawn(program, ['serve', ...recordings, '--listen', '127.0.0.1:0'],
    {stdio: ['ignore', 'ignore', 'pipe'], env: {...process.env, STALLTRACE_TOKEN: token}});
  let output = '';
  for await (const bytes of serving.stderr) {
    output += bytes;
    const found = output.match(/http:\/\/\S+/);
    if (found) {
      return {serving, url: new URL('/mcp', found[0])};
    }
  }
  throw new Error(`it does not serve: ${output}`);
}

const token = '0123456789abcdef';
const {serving, url} = await startServer(token);
const withToken = {requestInit: {headers: {Authorization: `Bearer ${token}`}}};
process.on('exit', () => serving.kill());
await ask('sdk 1.32.2, handshake', new LegacyClient(about), new LegacyTransport(server));
await ask('sdk 1.32.2, handshake, HTTP', new LegacyClient(about), new LegacyHttp(url, withToken));
const modes = {handshake: undefined, auto: {mode: 'auto'}, 'pinned to 2026-07-28': {mode: {pin: '2026-07-28'}}};
for (const [name, versionNegotiation] of Object.entries(modes)) {
  const client = () => new ModernClient(about, versionNegotiation ? {versionNegotiation} : {});
  await ask(`client 2.4.0, ${name}`, client(), new ModernTransport(server));
  await ask(`client 2.4.0, ${name}, HTTP`, client(), new ModernHttp(url, withToken));
}
const refused = await new LegacyClient(about).connect(new LegacyHttp(url)).then(() => null, (error) => error);
expect(refused, 'without a token it is refused');
console.log(`without the token: ${refused.message.slice(0, 100)}`);
serving.kill();
