// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/dumped_stacks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/python_frames.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kFramesListed = 5;
constexpr size_t kLocationsListed = 8;
constexpr size_t kPidsListed = 8;
constexpr std::string_view kPySpy = "py_spy";  // Node::agent_version of import/py_spy

/// "wait (threading.py:320), called by load_batch (data.py:212), ...": a dump's text has short file names, which do not
/// show whose code it is.
std::string location_text(const std::string& frames_text) {
  std::vector<std::string> texts;
  for (const PythonFrame& frame : frames_from_text(frames_text)) {
    if (texts.size() == kFramesListed) {
      break;
    }
    texts.push_back(brief_text(frame));
  }
  return fmt::format("{}", fmt::join(texts, ", called by "));
}

/// By process.
using MainThreads = std::map<int32_t, std::pair<std::set<NodeId>, PythonStack>>;

/// Where the main threads were, those at one location together: ranks that stand elsewhere are few.
void note_main_threads(const MainThreads& threads, const std::map<int64_t, const std::string*>& frames,
                       std::vector<std::string>& notes) {
  std::map<std::string, std::vector<int32_t>> by_location;
  for (const auto& [pid, thread] : threads) {
    const auto text = frames.find(thread.second.stack_id);
    std::string location = text == frames.end() ? "" : location_text(*text->second);
    if (thread.second.pid != 0 && !location.empty()) {
      by_location[std::move(location)].push_back(pid);
    }
  }
  std::vector<std::pair<std::string, std::vector<int32_t>>> locations(by_location.begin(), by_location.end());
  std::ranges::stable_sort(locations, {}, [](const auto& one) { return one.second.size(); });
  for (size_t i = 0; i < std::min(locations.size(), kLocationsListed); ++i) {
    const auto& [location, pids] = locations[i];
    const bool all = pids.size() <= kPidsListed;
    const std::span<const int32_t> listed(pids.data(), std::min(pids.size(), kPidsListed));
    notes.push_back(fmt::format("py-spy: {} in {}",
                                pids.size() == 1 ? fmt::format("the main thread of pid {} was", pids.front())
                                                 : fmt::format("the main threads of pids {}{} were",
                                                               fmt::join(listed, ", "), all ? "" : ", ..."),
                                location));
  }
  if (locations.size() > kLocationsListed) {
    notes.push_back(
        fmt::format("py-spy: main threads at {} more locations, in python_stack", locations.size() - kLocationsListed));
  }
}

}  // namespace

Status add_dumped_stacks(EventSource& source, std::vector<Finding>& findings, std::vector<std::string>& notes) {
  ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
  std::map<NodeId, std::string> files;
  for (const Node& node : nodes) {
    if (node.agent_version == kPySpy) {
      files.emplace(node.node_id, node.name);
    }
  }
  if (files.empty()) {
    return {};
  }
  MainThreads threads;
  ST_TRY(source.python_stacks({}, [&](const PythonStack& row) {
    if (!files.contains(row.node_id)) {
      return;
    }
    auto& [where, stack] = threads[row.pid];
    where.insert(row.node_id);
    if (row.tid == row.pid) {
      stack = row;
    }
  }));
  ST_ASSIGN(const std::vector<Stack> stacks, source.stacks());
  std::map<int64_t, const std::string*> frames;
  for (const Stack& stack : stacks) {
    frames.emplace(stack.stack_id, &stack.frames);
  }
  note_main_threads(threads, frames, notes);
  for (Finding& finding : findings) {
    const auto thread = finding.culprit ? threads.find(finding.culprit->pid) : threads.end();
    if (thread == threads.end() || thread->second.first.size() != 1) {
      continue;
    }
    const PythonStack& stack = thread->second.second;
    if (stack.pid == 0) {
      continue;  // the dump lacks its main thread
    }
    const auto text = frames.find(stack.stack_id);
    const std::string location = text == frames.end() ? "" : location_text(*text->second);
    if (!location.empty()) {
      finding.evidence.push_back({"python_stack",
                                  1,
                                  fmt::format("py-spy saw its main thread in {} ({}, {}); its dump names no host",
                                              location, stack.activity, files.at(stack.node_id)),
                                  {}});
    }
  }
  return {};
}

}  // namespace stalltrace::analysis
