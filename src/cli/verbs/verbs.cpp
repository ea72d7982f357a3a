// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs/verbs.h"

namespace stalltrace::cli {
namespace {

using Factory = std::unique_ptr<Subcommand> (*)();

constexpr Factory kFactories[] = {
    make_check_verb,     make_trace_verb,      make_run_verb,          make_stacks_verb, make_autopsy_verb,
    make_preflight_verb, make_query_verb,      make_explain_verb,      make_merge_verb,  make_import_verb,
    make_export_verb,    make_push_verb,       make_mcp_verb,          make_serve_verb,  make_nodes_verb,
    make_lab_run_verb,   make_lab_matrix_verb, make_lab_simulate_verb, make_lab_up_verb, make_lab_fault_verb,
    make_lab_down_verb,  make_version_verb,
};

}  // namespace

std::vector<std::unique_ptr<Subcommand>> all_verbs() {
  std::vector<std::unique_ptr<Subcommand>> verbs;
  for (const Factory make : kFactories) {
    verbs.push_back(make());
  }
  return verbs;
}

}  // namespace stalltrace::cli
