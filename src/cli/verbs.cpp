// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.h"

#include <array>

namespace stalltrace::cli {
namespace {

using Factory = std::unique_ptr<Verb> (*)();

constexpr std::array<Factory, 1> kFactories{make_version_verb};

}  // namespace

std::vector<std::unique_ptr<Verb>> all_verbs() {
  std::vector<std::unique_ptr<Verb>> verbs;
  for (const Factory make : kFactories) {
    verbs.push_back(make());
  }
  return verbs;
}

}  // namespace stalltrace::cli
