// SPDX-License-Identifier: Apache-2.0
// Reads nftables' counters.
#include <nlohmann/json.hpp>

#include "lab/cluster/host/command.h"
#include "lab/cluster/injection/fault_table.h"

namespace stalltrace::lab {

Result<uint64_t> read_counter(const PacketCounter& counter) {
  ST_ASSIGN(const std::string text, run_command({"ip", "netns", "exec", counter.netns, "nft", "-j", "list", "counters",
                                                 "table", counter.family, counter.table}));
  const auto root = nlohmann::json::parse(text, nullptr, false);
  if (!root.is_object() || !root.contains("nftables")) {
    return fail("nft -j list counters: not the JSON expected", {}, ErrorKind::kCorrupt);
  }
  for (const auto& item : root["nftables"]) {
    if (item.contains("counter")) {
      return item["counter"].value("packets", uint64_t{0});
    }
  }
  return fail("nft -j list counters: no counter in table " + counter.table, {}, ErrorKind::kNotFound);
}

}  // namespace stalltrace::lab
