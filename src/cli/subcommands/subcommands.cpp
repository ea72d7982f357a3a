// SPDX-License-Identifier: Apache-2.0
#include "cli/subcommands/subcommands.h"

namespace stalltrace::cli {
namespace {

using Factory = std::unique_ptr<Subcommand> (*)();

constexpr Factory kFactories[] = {
    make_check_subcommand,      make_trace_subcommand,        make_run_subcommand,    make_stacks_subcommand,
    make_autopsy_subcommand,    make_preflight_subcommand,    make_query_subcommand,  make_explain_subcommand,
    make_merge_subcommand,      make_import_subcommand,       make_export_subcommand, make_push_subcommand,
    make_mcp_subcommand,        make_serve_subcommand,        make_nodes_subcommand,  make_lab_run_subcommand,
    make_lab_matrix_subcommand, make_lab_simulate_subcommand, make_lab_up_subcommand, make_lab_fault_subcommand,
    make_lab_down_subcommand,   make_version_subcommand,
};

}  // namespace

std::vector<std::unique_ptr<Subcommand>> all_subcommands() {
  std::vector<std::unique_ptr<Subcommand>> subcommands;
  for (const Factory make : kFactories) {
    subcommands.push_back(make());
  }
  return subcommands;
}

}  // namespace stalltrace::cli
