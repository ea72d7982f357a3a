// SPDX-License-Identifier: Apache-2.0
// The subcommands of stalltrace, in the order of the help page. Each factory is defined in its subcommand's file.
#pragma once

#include <memory>
#include <vector>

#include "cli/framework/subcommand.h"

namespace stalltrace::cli {

std::unique_ptr<Subcommand> make_check_subcommand();
std::unique_ptr<Subcommand> make_trace_subcommand();
std::unique_ptr<Subcommand> make_run_subcommand();
std::unique_ptr<Subcommand> make_stacks_subcommand();
std::unique_ptr<Subcommand> make_autopsy_subcommand();
std::unique_ptr<Subcommand> make_preflight_subcommand();
std::unique_ptr<Subcommand> make_query_subcommand();
std::unique_ptr<Subcommand> make_explain_subcommand();
std::unique_ptr<Subcommand> make_merge_subcommand();
std::unique_ptr<Subcommand> make_push_subcommand();
std::unique_ptr<Subcommand> make_import_subcommand();
std::unique_ptr<Subcommand> make_export_subcommand();
std::unique_ptr<Subcommand> make_mcp_subcommand();
std::unique_ptr<Subcommand> make_serve_subcommand();
std::unique_ptr<Subcommand> make_nodes_subcommand();
std::unique_ptr<Subcommand> make_lab_run_subcommand();
std::unique_ptr<Subcommand> make_lab_matrix_subcommand();
std::unique_ptr<Subcommand> make_lab_simulate_subcommand();
std::unique_ptr<Subcommand> make_lab_up_subcommand();
std::unique_ptr<Subcommand> make_lab_fault_subcommand();
std::unique_ptr<Subcommand> make_lab_down_subcommand();
std::unique_ptr<Subcommand> make_version_subcommand();

std::vector<std::unique_ptr<Subcommand>> all_subcommands();

}  // namespace stalltrace::cli
