// SPDX-License-Identifier: Apache-2.0
// Fuzzes the small languages of the command line, by the first byte: durations, sizes, times, ids, addresses, lists of
// nodes, shapes and faults of the lab. Any word has a value or an error in words.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"
#include "fleet/node_list.h"
#include "fleet/resolve.h"
#include "lab/cluster/injection/fault_spec.h"
#include "lab/simulation/shapes.h"
#include "model/events/ids.h"
#include "model/events/tcp.h"
#include "model/parse/time_point.h"
#include "serve/http/listener.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/rows.h"

using namespace stalltrace;
using fuzz::require;

namespace {

template <typename T>
bool holds_value(const Result<T>& result) {
  require(result.has_value() || !result.error().what.empty());
  return result.has_value();
}

void read_nodes(std::string_view text) {
  if (text.find('@') != std::string_view::npos || text.find("slurm") != std::string_view::npos) {
    return;  // they would read a file, or the environment
  }
  if (const auto nodes = fleet::parse_node_list(text); holds_value(nodes)) {
    require(!nodes->empty() && nodes->size() <= 16'384);
    for (const fleet::NodeAddress& node : *nodes) {
      require(!node.host.empty() && !node.shown().empty());
    }
  }
}

void read_lab_fault(std::string_view text) {
  if (const auto fault = lab::parse_fault(text); holds_value(fault)) {
    require(!fault->cause.empty() && fault->rank.value_or(0) >= 0 && fault->start_ns.value_or(0) >= 0 &&
            fault->duration_ns.value_or(1) > 0 && fault->every_ns.value_or(1) > 0 && fault->pulse_ns.value_or(1) > 0);
  }
}

void read_simulated_fault(std::string_view text) {
  const simulation::JobOptions job;
  if (const auto fault = simulation::parse_fault(text, job); holds_value(fault)) {
    require(fault->rank >= 0 && fault->rank < job.ranks() && std::isfinite(fault->ms) && fault->ms >= 0 &&
            fault->every > 0 && std::isfinite(fault->factor) && fault->from <= fault->to);
  }
}

void read_shape(std::string_view text) {
  simulation::JobOptions job;
  const size_t blank = text.find(' ');
  if (holds_value(simulation::apply_shape(text.substr(0, blank), job)) && blank != std::string_view::npos &&
      holds_value(simulation::apply_parallel(text.substr(blank + 1), job))) {
    require(job.tensor > 0 && job.stages > 0 && job.ranks() % (job.tensor * job.stages) == 0);
  }
}

using Reader = void (*)(std::string_view);
constexpr Reader kReaders[] = {
    [](std::string_view text) {
      const auto value = parse_duration_ns(text);
      require(!holds_value(value) || *value >= 0);
    },
    [](std::string_view text) {
      const auto value = parse_size_bytes(text);
      require(!holds_value(value) || *value >= 0);
    },
    [](std::string_view text) { (void)holds_value(parse_integer(text)); },
    [](std::string_view text) { (void)holds_value(parse_time_point(text)); },
    [](std::string_view text) { (void)parse_event_id(text); },
    [](std::string_view text) { (void)parse_endpoint(text); },
    [](std::string_view text) {
      const auto where = serve::parse_listen_address(text);
      require(!holds_value(where) || !where->address.empty());
    },
    [](std::string_view text) { (void)fleet::parse_hosts(text); },
    [](std::string_view text) { require(printable(printable(text)) == printable(text)); },
    read_nodes,
    read_lab_fault,
    read_simulated_fault,
    read_shape,
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  const Reader read = kReaders[input.number(1) % std::size(kReaders)];
  read(input.text());
  return 0;
}
