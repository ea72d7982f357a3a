// SPDX-License-Identifier: Apache-2.0
// Of schemas.sh: JSON Schemas by name, and what of a value they refuse, do not know, or need. A reference is a name and a JSON
// pointer: "2025-11-25#/$defs/Tool".
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

const GROUPS = ['allOf', 'anyOf', 'oneOf'];
const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const escaped = (name) => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'));
const unescaped = (part) => decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');

export class Schemas {
  #ajv = new Ajv2020({allErrors: true, strict: true, strictTypes: false, strictRequired: false, allowUnionTypes: true});
  #roots = new Map();

  constructor() {
    addFormats(this.#ajv);
  }

  /// Throws if it is no JSON Schema 2020-12, or has a keyword or a format that the dialect lacks.
  add(name, schema) {
    this.#ajv.addSchema(schema, name);
    this.#ajv.getSchema(name);
    this.#roots.set(name, schema);
  }

  has(reference) {
    return this.#at(reference) !== undefined;
  }

  /// What is wrong with `value`, a line each.
  problems(value, reference) {
    const validate = this.#roots.has(reference.split('#')[0]) ? this.#ajv.getSchema(reference) : undefined;
    if (!validate) {
      return [`there is no ${reference}`];
    }
    return validate(value) ? [] : validate.errors.map(({instancePath, message}) => `${reference}${instancePath}: ${message}`);
  }

  /// Paths of members that the schemas do not list. Where they list none at all (a tool's own answer), all are free.
  unknown(value, reference, ends = () => false) {
    const found = [];
    this.#walk(value, reference, [], ({path, nodes}) => {
      if (ends(path)) {
        return false;
      }
      const listed = nodes.flatMap(({schema}) => Object.keys(schema.properties ?? {}));
      const rest = nodes.some(({schema}) => isObject(schema.additionalProperties) && Object.keys(schema.additionalProperties).length > 0);
      if (listed.length > 0 && !rest) {
        found.push(...Object.keys(path.value).filter((name) => !listed.includes(name)).map((name) => [...path, name].join('.')));
      }
      return true;
    });
    return found;
  }

  /// Paths of members that the schemas require and that `value` has; of a list, those of its first item.
  required(value, reference) {
    const found = [];
    this.#walk(value, reference, [], ({path, nodes}) => {
      const names = new Set(nodes.flatMap(({schema}) => schema.required ?? []));
      found.push(...[...names].filter((name) => name in path.value).map((name) => [...path, name]));
      return true;
    }, 1);
    return found;
  }

  /// Calls visit({path, nodes}) for each object in `value` with the schemas that apply to it, as long as it returns true.
  /// `path.value` is the object.
  #walk(value, references, path, visit, mostItems = Infinity) {
    const nodes = [references].flat().flatMap((reference) => this.#applying(value, reference));
    const below = (member, parts, name) => {
      const next = nodes.flatMap(({schema, reference}) => parts(schema).map((part) => `${reference}/${part}`));
      if (next.length > 0) {
        this.#walk(member, next, [...path, name], visit, mostItems);
      }
    };
    if (Array.isArray(value)) {
      value.slice(0, mostItems).forEach((item, number) => below(item, (schema) => (isObject(schema.items) ? ['items'] : []), number));
    } else if (isObject(value) && visit({path: Object.assign([...path], {value}), nodes})) {
      for (const [name, member] of Object.entries(value)) {
        below(member, (schema) => {
          const listed = schema.properties !== undefined && name in schema.properties;
          return listed ? [`properties/${escaped(name)}`] : isObject(schema.additionalProperties) ? ['additionalProperties'] : [];
        }, name);
      }
    }
  }

  /// The schema and those that it refers to; of alternatives, those that `value` is valid for.
  #applying(value, reference) {
    const schema = this.#at(reference);
    if (!isObject(schema)) {
      return [];
    }
    const nodes = [{schema, reference}];
    if (schema.$ref) {
      nodes.push(...this.#applying(value, reference.split('#')[0] + schema.$ref));
    }
    for (const group of GROUPS) {
      (schema[group] ?? []).forEach((_, number) => {
        const branch = `${reference}/${group}/${number}`;
        if (group === 'allOf' || this.problems(value, branch).length === 0) {
          nodes.push(...this.#applying(value, branch));
        }
      });
    }
    return nodes;
  }

  #at(reference) {
    const [name, pointer = ''] = reference.split('#');
    return pointer.split('/').slice(1).reduce((schema, part) => schema?.[unescaped(part)], this.#roots.get(name));
  }
}
