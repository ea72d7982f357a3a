/* SPDX-License-Identifier: Apache-2.0 */
/* A framework's library with a collective library linked into it statically: its names are local. */
__attribute__((visibility("hidden"), noinline)) int ncclAllReduce(int value) { return value + 1; }
__attribute__((visibility("hidden"), noinline)) int ncclGroupEnd(int value) { return value + 2; }
__attribute__((visibility("default"))) int framework_step(int value) {
  return ncclAllReduce(value) + ncclGroupEnd(value);
}
