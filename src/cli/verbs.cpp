// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.h"

namespace stalltrace::cli {
namespace {

using Factory = std::unique_ptr<Verb> (*)();

constexpr Factory kFactories[] = {make_check_verb, make_trace_verb, make_query_verb, make_version_verb};

}  // namespace

std::vector<std::unique_ptr<Verb>> all_verbs() {
  std::vector<std::unique_ptr<Verb>> verbs;
  for (const Factory make : kFactories) {
    verbs.push_back(make());
  }
  return verbs;
}

}  // namespace stalltrace::cli
