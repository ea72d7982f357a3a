// SPDX-License-Identifier: Apache-2.0
// Who is who, after the first reading of logs: copies, communicators, ranks, and what numbers calls.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "import/file_node.h"
#include "import/nccl_log/survey.h"

namespace stalltrace::import {
namespace {

/// NCCL 2.27 and newer: opCount stands still where no call needs the proxy.
bool counts_proxy_launches(const LoggedFile& file) {
  int major = 0;
  int minor = 0;
  return std::sscanf(file.version.c_str(), "NCCL version %d.%d", &major, &minor) == 2 &&
         (major > 2 || (major == 2 && minor >= 27));
}

constexpr int32_t kMostDevices = 16;  // of a host

int32_t largest_of(const LoggedProcess& process) {
  int32_t nranks = 0;
  for (const LoggedComm& comm : process.comms) {
    nranks = std::max(nranks, comm.nranks);
  }
  return nranks;
}

/// Whether the processes of the only host in the logs are all ranks of a communicator: as many as it has, or one has a
/// device beyond half of them, so that two hosts with equally many devices would have more. Else there may be other
/// hosts, whose ranks have the same devices.
bool may_be_all(const std::vector<const LoggedProcess*>& of_host, int32_t nranks) {
  return nranks <= kMostDevices &&
         (std::ssize(of_host) == nranks || std::ranges::any_of(of_host, [&](const LoggedProcess* process) {
            return process->device && *process->device >= nranks / 2 && *process->device < nranks;
          }));
}

/// Two attempts of a job, or two containers, may share a host name and process numbers: they have set up other
/// communicators, or have other ranks in them.
bool are_two(const LoggedProcess& a, const LoggedProcess& b) {
  const auto set_ups = [](const LoggedProcess& process) {
    std::set<std::pair<uint64_t, int32_t>> found;  // NCCL's hash, rank
    for (const LoggedComm& comm : process.comms) {
      if (comm.set_up && comm.set_up->comm_id != 0) {
        found.emplace(comm.set_up->comm_id, comm.set_up->rank);
      }
    }
    return found;
  };
  const auto of_a = set_ups(a);
  const auto of_b = set_ups(b);
  return !of_a.empty() && !of_b.empty() &&
         std::ranges::none_of(of_a, [&](const auto& set_up) { return of_b.contains(set_up); });
}

}  // namespace

/// A process in several files (a copy, a rotated log): the one with its newest calls counts. Of two processes with one
/// name, the second gets that of its file as well.
void Survey::leave_out_copies() {
  std::map<std::pair<std::string, int32_t>, std::vector<LoggedProcess*>> known;
  const auto newest = [](const LoggedProcess& process) {
    uint64_t count = 0;
    for (const LoggedComm& comm : process.comms) {
      count = std::max(count, comm.calls == 0 ? 0 : comm.last_op_count + 1);
    }
    return count;
  };
  for (LoggedFile& file : files_) {
    for (LoggedProcess& process : file.processes) {
      std::vector<LoggedProcess*>& same_name = known[{process.host, process.pid}];
      const auto copy =
          std::ranges::find_if(same_name, [&](const LoggedProcess* other) { return !are_two(process, *other); });
      if (copy == same_name.end()) {
        if (!same_name.empty()) {
          process.host += fmt::format(" ({}: {})", same_name.size() + 1, base_name(file.path));
        }
        same_name.push_back(&process);
      } else if (newest(process) > newest(**copy)) {
        (*copy)->left_out = true;
        process.host = (*copy)->host;
        *copy = &process;
      } else {
        process.left_out = true;
      }
    }
  }
}

/// The hashes that NCCL itself printed, and those of communicators split from them.
void Survey::name_communicators() {
  for (LoggedFile& file : files_) {
    for (LoggedProcess& process : file.processes) {
      std::unordered_map<uint64_t, CommHash> parents;
      for (LoggedComm& comm : process.comms) {
        if (!comm.set_up) {
          continue;
        }
        comm.rank = comm.set_up->rank;
        comm.rank_source = RankSource::kInit;
        if (comm.set_up->comm_id != 0) {
          comm.hash = comm.set_up->comm_id;
        } else if (const auto parent = parents.find(comm.set_up->parent);
                   parent != parents.end() && comm.set_up->color) {
          uint64_t hash = splitmix64_fold(parent->second, static_cast<uint64_t>(*comm.set_up->color));
          hash = splitmix64_fold(hash, static_cast<uint64_t>(comm.set_up->split_count.value_or(-1)));
          comm.hash = splitmix64_fold(hash, static_cast<uint64_t>(comm.nranks));
        }
        comm.named = comm.hash != 0;
        if (comm.named) {
          parents[comm.comm] = comm.hash;
        }
      }
    }
  }
}

/// Where no log says which communicator is which, only the largest can be matched: the one of the whole job. It has to
/// be the only one of its size in each process, and no more processes may have it than it has ranks.
void Survey::match_unnamed() {
  int32_t largest = 0;
  bool any_named = false;
  for (const LoggedFile& file : files_) {
    for (const LoggedProcess& process : file.processes) {
      for (const LoggedComm& comm : process.comms) {
        largest = std::max(largest, comm.nranks);
        any_named = any_named || comm.named;
      }
    }
  }
  std::vector<std::pair<LoggedProcess*, LoggedComm*>> members;
  for (LoggedFile& file : files_) {
    for (LoggedProcess& process : file.processes) {
      if (process.left_out) {
        continue;
      }
      size_t of_size = 0;
      for (LoggedComm& comm : process.comms) {
        if (comm.nranks == largest) {
          members.emplace_back(&process, &comm);
          ++of_size;
        }
      }
      if (of_size > 1 && !any_named) {
        return;
      }
    }
  }
  if (any_named || largest < 2 || members.size() > static_cast<size_t>(largest)) {
    return;
  }
  for (const auto& [process, comm] : members) {
    comm->hash = splitmix64_fold(splitmix64_text("unnamed"), static_cast<uint64_t>(largest));
    if (!comm->rank && process->rank && *process->rank < largest) {
      comm->rank = process->rank;
      comm->rank_source = process->rank_source;
    }
  }
}

/// opCount is the number of a call where it rises by each call. NCCL counts launches: Sends and groups count as well,
/// and from 2.27 on only launches that need its proxy. Where it doesn't serve, calls are counted from the set-up on.
void Survey::choose_orders() {
  std::map<CommHash, std::vector<std::pair<LoggedFile*, std::pair<LoggedProcess*, LoggedComm*>>>> groups;
  for (LoggedFile& file : files_) {
    for (LoggedProcess& process : file.processes) {
      for (LoggedComm& comm : process.comms) {
        if (comm.hash != 0 && !process.left_out && comm.calls > 0) {
          groups[comm.hash].push_back({&file, {&process, &comm}});
        }
      }
    }
  }
  for (auto& [hash, members] : groups) {
    const bool known = std::ranges::none_of(members, [](const auto& one) { return one.second.second->unknown_calls; });
    const bool by_count = std::ranges::all_of(members, [](const auto& one) {
      const LoggedComm& comm = *one.second.second;
      const bool each_counts = comm.last_op_count - comm.first_op_count == comm.calls - 1;
      const bool shown = comm.calls > 1 || !counts_proxy_launches(*one.first);
      return comm.counts_rise && each_counts && shown && !comm.point_to_point;
    });
    const bool whole = std::ranges::all_of(members, [](const auto& one) {
      return one.second.second->set_up.has_value() && one.first->damaged == 0 && one.first->refused == 0;
    });
    for (auto& [file, member] : members) {
      member.second->order = !known     ? LoggedComm::Order::kUnknown
                             : by_count ? LoggedComm::Order::kOpCount
                             : whole    ? LoggedComm::Order::kOrdinal
                                        : LoggedComm::Order::kUnknown;
    }
  }
}

/// The communicator of the whole job: the largest, if there is one of that size only. 0: not known.
CommHash Survey::world() const {
  int32_t nranks = 0;
  std::set<CommHash> hashes;
  for (const LoggedFile& file : files_) {
    for (const LoggedProcess& process : file.processes) {
      for (const LoggedComm& comm : process.comms) {
        if (process.left_out || comm.nranks < nranks) {
          continue;
        }
        if (comm.nranks > nranks) {
          hashes.clear();
        }
        nranks = comm.nranks;
        hashes.insert(comm.hash);
      }
    }
  }
  return hashes.size() == 1 ? *hashes.begin() : 0;
}

/// A communicator's rank is the job's only in the communicator of the whole job.
void Survey::number_ranks() {
  const CommHash whole_job = world();
  std::set<std::string_view> hosts;
  std::vector<const LoggedProcess*> processes;
  for (const LoggedFile& file : files_) {
    for (const LoggedProcess& process : file.processes) {
      hosts.insert(process.host);
      if (!process.left_out && !process.comms.empty()) {
        processes.push_back(&process);
      }
    }
  }
  std::map<int32_t, int> taken;
  for (LoggedFile& file : files_) {
    const std::optional<int32_t> of_file = file.processes.size() == 1 ? rank_in_path(file.path) : std::nullopt;
    for (LoggedProcess& process : file.processes) {
      const LoggedComm* own = nullptr;  // in the communicator of the whole job
      bool several = false;             // threads that are a rank each
      for (const LoggedComm& comm : process.comms) {
        if (comm.rank && comm.hash == whole_job && whole_job != 0) {
          several = several || (own != nullptr && comm.rank != own->rank);
          own = &comm;
        }
      }
      if (several) {
        continue;
      }
      if (process.prefix_rank || of_file) {
        process.rank = process.prefix_rank ? process.prefix_rank : of_file;
        process.rank_source = RankSource::kEnvironment;
      } else if (own != nullptr) {
        process.rank = own->rank;
        process.rank_source = RankSource::kInit;
      } else if (hosts.size() == 1 && process.device && *process.device < largest_of(process) &&
                 may_be_all(processes, largest_of(process))) {  // one host: rank k mostly has device k
        process.rank = process.device;
        process.rank_source = RankSource::kDerived;
      }
      if (process.rank && !process.left_out) {
        ++taken[*process.rank];
      }
    }
  }
  for (LoggedFile& file : files_) {
    for (LoggedProcess& process : file.processes) {
      if (process.rank && taken[*process.rank] > 1) {
        process.rank.reset();  // of two processes with one number none is known
        process.rank_source = RankSource::kUnknown;
      }
    }
  }
}

void Survey::resolve() {
  leave_out_copies();
  name_communicators();
  number_ranks();
  match_unnamed();
  choose_orders();
  for (LoggedFile& file : files_) {
    for (LoggedProcess& process : file.processes) {
      process.cut = std::max(file.last_damaged_line, process.last_broken_line) > process.last_call_line ||
                    file.refused > 0 || file.read_failed;
    }
  }
}

}  // namespace stalltrace::import
