// SPDX-License-Identifier: Apache-2.0
// Of schemas.sh: main.mjs SCHEMAS PROGRAM RECORDING ..., in a folder that has ajv.
import {createHash} from 'node:crypto';
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {askEverything} from './asked.mjs';
import {Conversation, Findings, LEGACY, MODERN} from './conversation.mjs';
import {Schemas} from './schemas.mjs';
import {Http, Pipes, startServer} from './transports.mjs';

const [folder, program, ...recordings] = process.argv.slice(2);
const schemas = new Schemas();
for (const version of [LEGACY, MODERN]) {
  const text = readFileSync(join(folder, version, 'schema.json'));
  const schema = JSON.parse(text);
  schemas.add(version, schema);
  const sum = createHash('sha256').update(text).digest('hex');
  console.log(`schema ${version}: ${Object.keys(schema.$defs).length} definitions, SHA-256 ${sum}`);
}

const token = '0123456789abcdef';
writeFileSync('token', `${token}\n`, {mode: 0o600});
const {serving, address} = await startServer(program, recordings, 'token');
process.on('exit', () => serving.kill());
const gathered = ['--nodes', `${address},127.0.0.1:1`, '--token-file', 'token'];  // nothing listens at the second
const transports = {
  'pipes': () => new Pipes(program, recordings),
  'HTTP': () => new Http(`http://${address}/mcp`, {Authorization: `Bearer ${token}`}),
  'pipes, --nodes': () => new Pipes(program, gathered),
};
const findings = new Findings();
for (const version of [LEGACY, MODERN]) {
  for (const [name, transport] of Object.entries(transports)) {
    await askEverything(new Conversation(schemas, version, transport(), name, findings)).catch((error) => {
      findings.problems.push(`${version} ${name}: it could not go on: ${error.message}`);
    });
  }
}
serving.kill();

const names = Object.keys(transports);
console.log(`\n${'messages of the server'.padEnd(42)}${names.map((name) => name.padStart(16)).join('')}`);
for (const [kind, counts] of [...findings.messages].sort()) {
  console.log(`  ${kind.padEnd(40)}${names.map((name) => String(counts[name] ?? 0).padStart(16)).join('')}`);
}
const total = [...findings.messages.values()].flatMap((counts) => Object.values(counts)).reduce((sum, count) => sum + count, 0);
console.log('\nresults of tools/call (answers are valid for the outputSchema, failures have isError):');
for (const tool of new Set([...findings.tools.keys()].map((key) => key.split(' ')[0]))) {
  console.log(`  ${tool}: ${findings.tools.get(`${tool} answers`) ?? 0} answers, ${findings.tools.get(`${tool} failures`) ?? 0} failures`);
}
console.log(`\nmembers that the schema of their definition does not list: ${findings.unknown.size || 'none'}`);
for (const [path, count] of findings.unknown) {
  console.log(`  ${path}, ${count} times`);
}
let broken = 0;
const unnoticed = [];
for (const [kind, sample] of findings.samples) {
  const result = sample.conversation.breakOnPurpose(sample);
  broken += result.broken;
  unnoticed.push(...result.unnoticed.map((what) => `${kind}: ${what}`));
}
const noticed = broken - unnoticed.length;
const kinds = findings.samples.size;
console.log(`\nself-check: ${kinds} kinds of messages, broken on purpose in ${broken} ways, of which ${noticed} were noticed`);
unnoticed.forEach((one) => console.log(`  UNNOTICED: ${one}`));
console.log(`${total} messages, ${findings.problems.length} problems`);
findings.problems.forEach((problem) => console.log(`  ${problem}`));
const right = findings.problems.length === 0 && unnoticed.length === 0 && total > 0 && broken > 0;
process.exit(right ? 0 : 1);
