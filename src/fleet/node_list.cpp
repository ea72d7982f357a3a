// SPDX-License-Identifier: Apache-2.0
#include "fleet/node_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "serve/http/listener.h"

namespace stalltrace::fleet {
namespace {

constexpr size_t kMostNodes = 16'384;
constexpr size_t kLargestFile = 4 << 20;
constexpr size_t kLongestName = 253;  // of DNS
constexpr size_t kMostDigits = 9;
constexpr std::ptrdiff_t kMostBrackets = 8;  // of one item

std::unexpected<Error> refuse(std::string_view item, std::string_view why) {
  return fail(fmt::format("node list: '{}': {}", item.substr(0, 100), why),
              "write a:7700,b:7700 or gpu[001-128]:7700, @FILE, slurm or config: see 'stalltrace nodes --help'",
              ErrorKind::kUsage);
}

bool is_host(std::string_view host) {
  return !host.empty() && host.size() <= kLongestName && host[0] != '-' && std::ranges::all_of(host, [](char c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' || c == '.' || c == '_';
  });
}

/// At commas that are not inside of brackets.
std::vector<std::string_view> split_items(std::string_view text) {
  std::vector<std::string_view> items;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      items.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else {
      depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
    }
  }
  return items;
}

class List {
 public:
  explicit List(std::span<const std::string> configured) : configured_(configured) {}

  Status add_items(std::string_view text, bool files) {
    for (const std::string_view item : split_items(text)) {
      if (item.empty()) {
        continue;
      }
      if (item.starts_with('@')) {
        ST_TRY(files ? add_file(std::string(item.substr(1))) : Status(refuse(item, "a file in a file")));
      } else if (item == "slurm") {
        ST_TRY(add_slurm());
      } else if (item == kConfigured && files) {
        ST_TRY(add_configured());
      } else {
        ST_TRY(add_item(item));
      }
    }
    return {};
  }
  std::vector<NodeAddress> take() { return std::move(nodes_); }

 private:
  Status add_file(const std::string& path) {
    auto text = read_file(path, kLargestFile);
    if (!text) {
      return with_context("node list", std::move(text.error()));
    }
    for (const std::string_view line : split(*text, '\n')) {
      ST_TRY(add_items(line.substr(0, line.find('#')), false));
    }
    return {};
  }

  Status add_slurm() {
    const char* nodes = std::getenv("SLURM_JOB_NODELIST");
    if (nodes == nullptr || *nodes == '\0') {
      return fail("node list: there is no SLURM_JOB_NODELIST", "run it inside of the job's allocation",
                  ErrorKind::kUsage);
    }
    return add_items(nodes, false);
  }

  Status add_configured() {
    if (configured_.empty()) {
      return fail("node list: the configuration names no nodes",
                  "write nodes = [\"gpu[001-128]:7700\"] into /etc/stalltrace/stalltrace.toml", ErrorKind::kUsage);
    }
    for (const std::string& items : configured_) {
      ST_TRY(add_items(items, false));
    }
    return {};
  }

  Status add_item(std::string_view item) {
    constexpr std::string_view kPlain = "http://";
    constexpr std::string_view kTls = "https://";
    const bool tls = item.starts_with(kTls);
    std::string_view rest = item.substr(tls ? kTls.size() : item.starts_with(kPlain) ? kPlain.size() : 0);
    uint16_t port = kDefaultPort;
    const size_t colon = rest.rfind(':');
    const size_t bracket = rest.rfind(']');
    if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
      const auto number = parse_integer(rest.substr(colon + 1));
      if (!number || *number < 1 || *number > 65535) {
        return refuse(item, "the port is a number from 1 to 65535");
      }
      port = static_cast<uint16_t>(*number);
      rest = rest.substr(0, colon);
    }
    if (rest.starts_with('[') && rest.ends_with(']') && rest.find(':') != std::string_view::npos) {
      return add({.host = std::string(rest.substr(1, rest.size() - 2)), .port = port, .wants_tls = tls}, item);
    }
    if (std::ranges::count(rest, '[') > kMostBrackets) {
      return refuse(item, fmt::format("more than {} brackets", kMostBrackets));
    }
    return expand("", rest, item, {.port = port, .wants_tls = tls});
  }

  /// Adds `done` with all that `rest` stands for.
  Status expand(const std::string& done, std::string_view rest, std::string_view item, const NodeAddress& like) {
    const size_t open = rest.find('[');
    if (open == std::string_view::npos) {
      NodeAddress node = like;
      node.host = done + std::string(rest);
      return is_host(node.host) ? add(std::move(node), item) : Status(refuse(item, "not the name of a host"));
    }
    const size_t close = rest.find(']', open);
    if (close == std::string_view::npos) {
      return refuse(item, "a bracket is not closed");
    }
    const std::string before = done + std::string(rest.substr(0, open));
    for (const std::string_view range : split(rest.substr(open + 1, close - open - 1), ',')) {
      const size_t dash = range.find('-');
      const std::string_view first = range.substr(0, dash);
      const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
      const auto low = parse_integer(first);
      const auto high = parse_integer(last);
      const bool digits = first.size() <= kMostDigits && last.size() <= kMostDigits &&
                          first.find_first_not_of("0123456789") == std::string_view::npos &&
                          last.find_first_not_of("0123456789") == std::string_view::npos;
      if (!digits || !low || !high || *low > *high) {
        return refuse(item, "a range is two numbers, the lower one first");
      }
      for (int64_t number = *low; number <= *high; ++number) {
        ST_TRY(expand(before + fmt::format("{:0{}}", number, first.size()), rest.substr(close + 1), item, like));
      }
    }
    return {};
  }

  Status add(NodeAddress node, std::string_view item) {
    if (named_++ == kMostNodes) {  // also the same one again: a short list can name one without end
      return refuse(item, fmt::format("more than {} nodes", kMostNodes));
    }
    if (!known_.insert({node.host, node.port}).second) {
      return {};
    }
    nodes_.push_back(std::move(node));
    return {};
  }

  std::span<const std::string> configured_;
  std::vector<NodeAddress> nodes_;
  size_t named_ = 0;
  std::set<std::pair<std::string, uint16_t>> known_;
};

}  // namespace

std::string NodeAddress::shown() const { return serve::format_address(host, port); }

bool names_configured(std::string_view text) {
  const std::vector<std::string_view> items = split_items(text);
  return std::ranges::find(items, kConfigured) != items.end();
}

Result<std::vector<NodeAddress>> parse_node_list(std::string_view text, std::span<const std::string> configured) {
  List list(configured);
  ST_TRY(list.add_items(text, true));
  std::vector<NodeAddress> nodes = list.take();
  if (nodes.empty()) {
    return refuse(text, "it names no node");
  }
  return nodes;
}

}  // namespace stalltrace::fleet
