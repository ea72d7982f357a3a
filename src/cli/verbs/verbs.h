// SPDX-License-Identifier: Apache-2.0
// The verbs of stalltrace, in the order of the help page. Each factory is defined in its verb's file.
#pragma once

#include <memory>
#include <vector>

#include "cli/framework/subcommand.h"

namespace stalltrace::cli {

std::unique_ptr<Subcommand> make_check_verb();
std::unique_ptr<Subcommand> make_trace_verb();
std::unique_ptr<Subcommand> make_run_verb();
std::unique_ptr<Subcommand> make_stacks_verb();
std::unique_ptr<Subcommand> make_autopsy_verb();
std::unique_ptr<Subcommand> make_preflight_verb();
std::unique_ptr<Subcommand> make_query_verb();
std::unique_ptr<Subcommand> make_explain_verb();
std::unique_ptr<Subcommand> make_merge_verb();
std::unique_ptr<Subcommand> make_push_verb();
std::unique_ptr<Subcommand> make_import_verb();
std::unique_ptr<Subcommand> make_export_verb();
std::unique_ptr<Subcommand> make_mcp_verb();
std::unique_ptr<Subcommand> make_serve_verb();
std::unique_ptr<Subcommand> make_nodes_verb();
std::unique_ptr<Subcommand> make_lab_run_verb();
std::unique_ptr<Subcommand> make_lab_matrix_verb();
std::unique_ptr<Subcommand> make_lab_simulate_verb();
std::unique_ptr<Subcommand> make_lab_up_verb();
std::unique_ptr<Subcommand> make_lab_fault_verb();
std::unique_ptr<Subcommand> make_lab_down_verb();
std::unique_ptr<Subcommand> make_version_verb();

std::vector<std::unique_ptr<Subcommand>> all_verbs();

}  // namespace stalltrace::cli
