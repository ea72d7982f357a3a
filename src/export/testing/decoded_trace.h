// SPDX-License-Identifier: Apache-2.0
// Perfetto's format, read: a decoder that shares nothing with the encoder. It resolves interned texts, pairs begins
// with ends as the trace processor does (the last open slice of a track), and records what does not fit.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::trace_export {

/// One field of a message.
struct Field {
  uint32_t number = 0;
  uint64_t value = 0;        // varint and fixed64
  std::string_view content;  // length-delimited
};

/// The fields of a message; an unfinished one ends the list with number 0.
inline std::vector<Field> fields_of(std::string_view bytes) {
  std::vector<Field> fields;
  const auto varint = [&](uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; !bytes.empty() && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes[0]);
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
      if ((byte & 0x80U) == 0) {
        return true;
      }
    }
    return false;
  };
  while (!bytes.empty()) {
    uint64_t key = 0;
    Field field;
    bool whole = varint(key);
    field.number = static_cast<uint32_t>(key >> 3U);
    if (whole && (key & 7U) == 0) {
      whole = varint(field.value);
    } else if (whole && (key & 7U) == 1 && bytes.size() >= 8) {
      std::memcpy(&field.value, bytes.data(), 8);
      bytes.remove_prefix(8);
    } else if (uint64_t size = 0; whole && (key & 7U) == 2 && varint(size) && size <= bytes.size()) {
      field.content = bytes.substr(0, size);
      bytes.remove_prefix(size);
    } else {
      whole = false;
    }
    if (!whole) {
      fields.push_back({});
      break;
    }
    fields.push_back(field);
  }
  return fields;
}

struct DecodedTrack {
  std::string name;
  uint64_t parent = 0;
  bool is_process = false;
  int64_t pid = 0;
  std::optional<std::string> unit;  // of a counter
};

struct DecodedEvent {
  uint64_t track = 0;
  std::string category;
  std::string name;
  int64_t time_ns = 0;  // UTC
  std::optional<int64_t> end_ns;
  std::map<std::string, std::string> notes;
  std::vector<uint64_t> flows_out;
  std::vector<uint64_t> flows_in;
  double value = 0;
};

class DecodedTrace {
 public:
  explicit DecodedTrace(std::string_view bytes) {
    read(bytes);
    std::ranges::stable_sort(raw_, {}, [](const Raw& raw) { return raw.event.time_ns; });
    std::map<uint64_t, std::vector<size_t>> open;
    for (Raw& raw : raw_) {
      if (raw.type == 1) {
        open[raw.event.track].push_back(slices.size());
        slices.push_back(raw.event);
      } else if (raw.type == 2) {
        std::vector<size_t>& stack = open[raw.event.track];
        if (stack.empty()) {
          problems.emplace_back("an end without a begin");
        } else {
          slices[stack.back()].end_ns = raw.event.time_ns;
          stack.pop_back();
        }
      } else if (raw.type == 3) {
        instants.push_back(raw.event);
      } else if (raw.type == 4) {
        counters.push_back(raw.event);
      } else {
        problems.emplace_back("an event of no known type");
      }
      if (raw.type == 1 && open[raw.event.track].size() > 1) {
        problems.emplace_back("a slice in another one: " + raw.event.name);
      }
    }
  }

  std::map<uint64_t, DecodedTrack> tracks;
  std::vector<DecodedEvent> slices;  // by begin
  std::vector<DecodedEvent> instants;
  std::vector<DecodedEvent> counters;
  std::vector<std::string> problems;

  /// "process / folder / track"
  [[nodiscard]] std::string path(uint64_t track) const {
    const auto found = tracks.find(track);
    if (found == tracks.end()) {
      return "undeclared";
    }
    const std::string above = found->second.parent == 0 ? "" : path(found->second.parent) + " / ";
    return above + found->second.name;
  }
  [[nodiscard]] std::vector<DecodedEvent> of(const std::vector<DecodedEvent>& events, std::string_view category) const {
    std::vector<DecodedEvent> found;
    std::ranges::copy_if(events, std::back_inserter(found),
                         [&](const DecodedEvent& event) { return event.category == category; });
    return found;
  }
  /// Of all flows that end: (slice where it begins, slice where it ends).
  [[nodiscard]] std::vector<std::pair<DecodedEvent, DecodedEvent>> flows() const {
    std::map<uint64_t, DecodedEvent> begins;
    std::vector<std::pair<DecodedEvent, DecodedEvent>> found;
    for (const DecodedEvent& slice : slices) {
      for (const uint64_t id : slice.flows_out) {
        begins.emplace(id, slice);
      }
      for (const uint64_t id : slice.flows_in) {
        if (const auto begin = begins.find(id); begin != begins.end()) {
          found.emplace_back(begin->second, slice);
        }
      }
    }
    return found;
  }

 private:
  struct Raw {
    uint64_t type = 0;
    DecodedEvent event;
  };

  void read(std::string_view trace) {
    for (const Field& field : fields_of(trace)) {
      if (field.number == 1) {
        packet(field.content);
      } else {
        problems.emplace_back("a field that no trace has");
      }
    }
  }

  void packet(std::string_view bytes) {
    const std::vector<Field> fields = fields_of(bytes);
    std::optional<uint64_t> time;
    uint64_t clock = default_clock_;
    std::string_view event;
    for (const Field& field : fields) {
      switch (field.number) {
        case 0:
          problems.emplace_back("an unfinished packet");
          break;
        case 50: {
          std::string plain(size_t{8} << 20, '\0');
          uLongf size = plain.size();
          if (::uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                           reinterpret_cast<const Bytef*>(field.content.data()), field.content.size()) != Z_OK) {
            problems.emplace_back("a bundle that can't be unpacked");
          } else {
            plain.resize(size);
            read(plain);
          }
          return;
        }
        case 8:
          time = field.value;
          break;
        case 58:
          clock = field.value;
          break;
        case 59:
          for (const Field& one : fields_of(field.content)) {
            default_clock_ = one.number == 58 ? one.value : default_clock_;
          }
          break;
        case 6:
          snapshot(field.content);
          break;
        case 12:
          intern(field.content);
          break;
        case 60:
          track(field.content);
          break;
        case 11:
          event = field.content;
          break;
        default:
          break;
      }
    }
    if (!event.empty()) {
      if (!time || (clock != 1 && !clocks_.contains(clock))) {
        problems.emplace_back("an event without a time");
        return;
      }
      add(event, static_cast<int64_t>(clock == 1 ? *time : *time + clocks_[clock]));
    }
  }

  void snapshot(std::string_view bytes) {
    std::map<uint64_t, uint64_t> times;
    for (const Field& field : fields_of(bytes)) {
      if (field.number == 1) {
        const std::vector<Field> clock = fields_of(field.content);
        times[clock.at(0).value] = clock.at(1).value;
      }
    }
    for (const auto& [clock, at] : times) {
      clocks_[clock] = times[1] - at;
    }
  }

  void intern(std::string_view bytes) {
    for (const Field& kind : fields_of(bytes)) {
      uint64_t id = 0;
      std::string_view text;
      for (const Field& field : fields_of(kind.content)) {
        id = field.number == 1 ? field.value : id;
        text = field.number == 2 ? field.content : text;
      }
      if (id == 0 || !interned_[kind.number].emplace(id, text).second) {
        problems.emplace_back("a bad interned entry");
      }
    }
  }
  std::string text(uint32_t kind, uint64_t id) {
    const auto found = interned_[kind].find(id);
    if (found == interned_[kind].end()) {
      problems.emplace_back("an unknown interned text");
      return {};
    }
    return found->second;
  }

  void track(std::string_view bytes) {
    DecodedTrack track;
    uint64_t uuid = 0;
    for (const Field& field : fields_of(bytes)) {
      if (field.number == 1) {
        uuid = field.value;
      } else if (field.number == 2) {
        track.name = field.content;
      } else if (field.number == 5) {
        track.parent = field.value;
      } else if (field.number == 3) {
        track.is_process = true;
        for (const Field& one : fields_of(field.content)) {
          track.pid = one.number == 1 ? static_cast<int64_t>(one.value) : track.pid;
          track.name = one.number == 6 ? std::string(one.content) : track.name;
        }
        if (!pids_.insert(track.pid).second) {
          problems.emplace_back("two processes with one pid");
        }
      } else if (field.number == 8) {
        track.unit = fields_of(field.content).at(0).content;
      }
    }
    if ((track.parent != 0 && !tracks.contains(track.parent)) || !tracks.emplace(uuid, track).second) {
      problems.emplace_back("a bad track");
    }
  }

  void add(std::string_view bytes, int64_t time_ns) {
    Raw raw;
    DecodedEvent& event = raw.event;
    event.time_ns = time_ns;
    for (const Field& field : fields_of(bytes)) {
      switch (field.number) {
        case 9:
          raw.type = field.value;
          break;
        case 11:
          event.track = field.value;
          break;
        case 3:
          event.category = text(1, field.value);
          break;
        case 10:
          event.name = text(2, field.value);
          break;
        case 23:
          event.name = field.content;
          break;
        case 4:
          note(field.content, event);
          break;
        case 30:
          event.value = static_cast<double>(static_cast<int64_t>(field.value));
          break;
        case 44:
          event.value = std::bit_cast<double>(field.value);
          break;
        case 47:
          event.flows_out.push_back(field.value);
          break;
        case 48:
          event.flows_in.push_back(field.value);
          break;
        default:
          problems.emplace_back("an unknown field of an event");
      }
    }
    if (!tracks.contains(event.track)) {
      problems.emplace_back("an event on a track that was not declared before");
    }
    raw_.push_back(std::move(raw));
  }

  void note(std::string_view bytes, DecodedEvent& event) {
    std::string name;
    std::string value;
    for (const Field& field : fields_of(bytes)) {
      switch (field.number) {
        case 1:
          name = text(3, field.value);
          break;
        case 2:
          value = field.value != 0 ? "true" : "false";
          break;
        case 3:
          value = std::to_string(field.value);
          break;
        case 4:
          value = std::to_string(static_cast<int64_t>(field.value));
          break;
        case 5:
          value = std::to_string(std::bit_cast<double>(field.value));
          break;
        case 6:
          value = field.content;
          break;
        case 7:
          value = "pointer " + std::to_string(field.value);
          break;
        case 17:
          value = text(29, field.value);
          break;
        default:
          problems.emplace_back("an unknown field of an annotation");
      }
    }
    event.notes[name] = value;
  }

  uint64_t default_clock_ = 0;
  std::map<uint64_t, uint64_t> clocks_;
  std::map<uint32_t, std::map<uint64_t, std::string>> interned_;
  std::set<int64_t> pids_;
  std::vector<Raw> raw_;
};

}  // namespace stalltrace::trace_export
