// SPDX-License-Identifier: Apache-2.0
// The subset of XML that NCCL writes: elements with quoted attributes, no text, no entities.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "preflight/topology/topology.h"

namespace stalltrace::preflight {
namespace {

constexpr size_t kMostElements = 65'536;
constexpr size_t kDeepest = 64;
constexpr size_t kMostDevices = 512;
constexpr std::string_view kNvSwitch = "0x068000";  // the PCI class of a bridge

struct Element {
  std::string name;
  std::map<std::string, std::string, std::less<>> attributes;
  [[nodiscard]] std::string attribute(std::string_view key) const {
    const auto found = attributes.find(key);
    return found == attributes.end() ? std::string() : found->second;
  }
};

std::unexpected<Error> refused(std::string_view why) {
  return fail(fmt::format("is no topology of NCCL ({})", why), "give what NCCL wrote to NCCL_TOPO_DUMP_FILE",
              ErrorKind::kCorrupt);
}

/// `tag` is what stands between < and >, without a slash at its end.
bool parse_tag(std::string_view tag, Element& element) {
  const size_t end = std::min(tag.find_first_of(" \t\r\n"), tag.size());
  element.name = tag.substr(0, end);
  for (std::string_view rest = trim(tag.substr(end)); !rest.empty(); rest = trim(rest)) {
    const size_t equals = rest.find('=');
    if (equals == std::string_view::npos || equals + 1 >= rest.size() || rest[equals + 1] != '"') {
      return false;
    }
    const size_t close = rest.find('"', equals + 2);
    if (close == std::string_view::npos) {
      return false;
    }
    element.attributes.emplace(trim(rest.substr(0, equals)), rest.substr(equals + 2, close - equals - 2));
    rest.remove_prefix(close + 1);
  }
  return !element.name.empty();
}

class Reader {
 public:
  void begin(const Element& element) {
    if (element.name == "gpu") {
      add(PciDevice::Kind::kGpu, "GPU" + element.attribute("dev"));
    } else if (element.name == "net") {
      add(PciDevice::Kind::kNic, element.attribute("name"));
    } else if (element.name == "nvlink" && !gpus_.empty()) {
      gpus_.back().nvlinks.push_back({.target = element.attribute("target"),
                                      .is_switch = element.attribute("tclass") == kNvSwitch,
                                      .count = parse_integer(element.attribute("count")).value_or(0)});
    }
    open_.push_back(element);
  }
  /// False: another element is open.
  bool end(std::string_view name) {
    if (open_.empty() || open_.back().name != name) {
      return false;
    }
    open_.pop_back();
    return true;
  }
  [[nodiscard]] size_t devices() const { return gpus_.size() + nics_.size(); }
  [[nodiscard]] size_t depth() const { return open_.size(); }
  Topology take() {
    Topology topology{.devices = std::move(gpus_), .has_nvlink = true};
    std::ranges::move(nics_, std::back_inserter(topology.devices));
    return topology;
  }

 private:
  void add(PciDevice::Kind kind, std::string name) {
    PciDevice device{.kind = kind, .name = std::move(name)};
    for (const Element& element : open_) {
      if (element.name == "cpu") {
        device.numa_node = parse_integer(element.attribute("numaid")).value_or(-1);
      } else if (element.name == "pci") {
        device.switches.push_back(element.attribute("busid"));
      }
    }
    if (!device.switches.empty()) {  // the last one is the device itself
      device.address = device.switches.back();
      device.switches.pop_back();
    }
    (kind == PciDevice::Kind::kGpu ? gpus_ : nics_).push_back(std::move(device));
  }

  std::vector<Element> open_;
  std::vector<PciDevice> gpus_;
  std::vector<PciDevice> nics_;
};

}  // namespace

Result<Topology> parse_nccl_topology(std::string_view xml) {
  Reader reader;
  size_t elements = 0;
  for (size_t at = xml.find('<'); at != std::string_view::npos; at = xml.find('<', at)) {
    const size_t close = xml.find('>', at);
    if (close == std::string_view::npos) {
      return refused(fmt::format("offset {}: an element is cut off", at));
    }
    std::string_view tag = xml.substr(at + 1, close - at - 1);
    const size_t offset = at;
    at = close + 1;
    if (tag.starts_with('!') || tag.starts_with('?')) {
      continue;
    }
    if (tag.starts_with('/')) {
      if (!reader.end(trim(tag.substr(1)))) {
        return refused(fmt::format("offset {}: an end without its beginning", offset));
      }
      continue;
    }
    const bool empty = tag.ends_with('/');
    tag.remove_suffix(empty ? 1 : 0);
    Element element;
    if (!parse_tag(tag, element) || ++elements > kMostElements || reader.devices() > kMostDevices ||
        reader.depth() >= kDeepest) {
      return refused(fmt::format("offset {}: a malformed element, or too many", offset));
    }
    if (reader.depth() == 0 && element.name != "system") {
      return refused(fmt::format("it begins with <{}>", printable(element.name).substr(0, 32)));
    }
    reader.begin(element);
    if (empty) {
      (void)reader.end(element.name);
    }
  }
  if (elements == 0 || reader.depth() != 0) {
    return refused(elements == 0 ? "it has no element" : "its end is missing");
  }
  return reader.take();
}

}  // namespace stalltrace::preflight
