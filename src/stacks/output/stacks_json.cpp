// SPDX-License-Identifier: Apache-2.0
// The JSON of `stacks --json`.
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "stacks/output/describe.h"
#include "stacks/output/stacks_text.h"

namespace stalltrace::stacks {
namespace {

using Json = nlohmann::ordered_json;

std::string_view kind_word(DescriptorKind kind) {
  switch (kind) {
    case DescriptorKind::kFile:
      return "file";
    case DescriptorKind::kPipe:
      return "pipe";
    case DescriptorKind::kTcp:
      return "tcp";
    case DescriptorKind::kUnix:
      return "unix";
    case DescriptorKind::kOtherSocket:
      return "socket";
    case DescriptorKind::kOther:
      return "other";
  }
  return "";
}

Json error_json(const Error& error) { return {{"what", error.what}, {"remedy", error.remedy}}; }

Json descriptor_json(const Descriptor& descriptor) {
  Json peers = Json::array();
  for (const PeerProcess& peer : descriptor.peers) {
    peers.push_back({{"pid", peer.pid}, {"name", peer.name}, {"itself", peer.itself}});
  }
  Json json{{"descriptor", descriptor.number}, {"kind", kind_word(descriptor.kind)}, {"link", descriptor.link}};
  if (descriptor.kind == DescriptorKind::kTcp) {
    json["local"] = descriptor.local;
    json["remote"] = descriptor.remote;
    json["state"] = descriptor.state;
  }
  if (!descriptor.unix_path.empty()) {
    json["path"] = descriptor.unix_path;
  }
  json["peers"] = descriptor.peers_known || !descriptor.peers.empty() ? std::move(peers) : Json();
  return json;
}

Json blocked_json(const Blocked& blocked) {
  Json descriptors = Json::array();
  for (const Descriptor& descriptor : blocked.descriptors) {
    descriptors.push_back(descriptor_json(descriptor));
  }
  Json json{{"call", blocked.call ? Json(call_name(blocked.call->number)) : Json()},
            {"arguments", blocked.call ? Json(blocked.call->arguments) : Json()},
            {"gil", blocked.for_gil},
            {"descriptors", std::move(descriptors)},
            {"more_descriptors", blocked.more_descriptors},
            {"wchan", blocked.wchan},
            {"kernel_stack", blocked.kernel_stack}};
  if (!blocked.path.empty()) {
    json["path"] = blocked.path;
  }
  return json;
}

Json python_json(const PythonThread& thread) {
  Json frames = Json::array();
  for (const PythonFrame& frame : thread.frames) {
    frames.push_back({{"function", frame.function}, {"file", frame.file}, {"line", or_null(frame.line)}});
  }
  return {{"holds_gil", or_null(thread.holds_gil)},
          {"collecting", thread.collecting},
          {"frames", std::move(frames)},
          {"left_out", thread.left_out},
          {"left_out_at", thread.left_out_at},
          {"changing", thread.changing},
          {"problem", thread.problem}};
}

Json native_json(const NativeStack& native) {
  Json frames = Json::array();
  for (const PythonFrame& frame : native.frames) {
    frames.push_back({{"function", frame.function}, {"file", frame.file}});
  }
  return {{"frames", std::move(frames)}, {"whole", native.whole}, {"problem", native.problem}};
}

Json process_json(const RankStacks& one) {
  Json json{{"pid", one.pid}, {"rank", or_null(one.rank)}, {"job", one.job}};
  if (!one.stacks) {
    json["error"] = error_json(one.stacks.error());
  } else {
    const ProcessStacks& stacks = *one.stacks;
    json["command"] = stacks.command;
    json["python"] = stacks.python ? Json(stacks.python->version) : Json();
    json["no_python"] = stacks.no_python ? error_json(*stacks.no_python) : Json();
    json["threads"] = Json::array();
    for (const ThreadStack& thread : stacks.threads) {
      json["threads"].push_back(thread_json(thread));
    }
    json["unnumbered"] = Json::array();
    for (const PythonThread& thread : stacks.unnumbered) {
      json["unnumbered"].push_back(python_json(thread));
    }
    json["notes"] = stacks.notes;
    json["location"] = stacks.threads.empty() ? "" : location_of(stacks.threads.front());
  }
  json["children"] = Json::array();
  for (const RankStacks& child : one.children) {
    json["children"].push_back(process_json(child));
  }
  return json;
}

}  // namespace

nlohmann::ordered_json thread_json(const ThreadStack& thread) {
  return {{"tid", thread.tid},
          {"name", thread.name},
          {"state", std::string(1, thread.state)},
          {"wait", describe_wait(thread)},
          {"blocked", thread.blocked ? blocked_json(*thread.blocked) : Json()},
          {"python", thread.python ? python_json(*thread.python) : Json()},
          {"native", thread.native ? native_json(*thread.native) : Json()},
          {"native_call", describe_native_call(thread)}};
}

nlohmann::ordered_json stacks_json(std::span<const RankStacks> ranks) {
  Json processes = Json::array();
  for (const RankStacks& one : ranks) {
    processes.push_back(process_json(one));
  }
  Json jobs = Json::array();
  for (const FoldedJob& job : fold_jobs(ranks)) {
    Json locations = Json::array();
    for (const FoldedRanks& folded : job.locations) {
      locations.push_back({{"ranks", folded.ranks}, {"location", folded.location}});
    }
    jobs.push_back({{"job", job.job}, {"line", folded_line(job.locations)}, {"locations", std::move(locations)}});
  }
  return {{"jobs", std::move(jobs)}, {"processes", std::move(processes)}};
}

}  // namespace stalltrace::stacks
