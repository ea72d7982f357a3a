// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/library_symbols.h"

#include <cstdint>
#include <set>

#include "base/untrusted/bytes.h"
#include "wire/python.h"

namespace stalltrace::capture {

std::string symbols_to_bytes(const FileSymbols& symbols) {
  std::string bytes;
  put(bytes, symbols.has_collectives);
  put(bytes, symbols.code);
  put(bytes, symbols.marker.has_value());
  put(bytes, symbols.marker.value_or(MarkerPoint{}));
  put(bytes, symbols.mpi_world.has_value());
  put(bytes, symbols.mpi_world.value_or(MpiWorld{}));
  put(bytes, static_cast<uint32_t>(symbols.python.size()));
  for (const PythonPoint& point : symbols.python) {
    put(bytes, point.offset);
    put(bytes, point.function);
    put(bytes, point.minor);
    put(bytes, point.runtime_distance);
  }
  for (const ProbePoint& point : symbols.points) {
    put(bytes, point.offset);
    put(bytes, point.row);
    put(bytes, point.int_handles);
  }
  return bytes;
}

std::optional<FileSymbols> symbols_from_bytes(std::string_view bytes, uint64_t file_bytes) {
  FileSymbols symbols;
  const auto take_flag = [&](bool& flag) {
    uint8_t byte = 0;
    const bool taken = take_value(bytes, byte) && byte <= 1;
    flag = byte == 1;
    return taken;
  };
  bool has_marker = false;
  bool has_world = false;
  MarkerPoint marker;
  MpiWorld world;
  if (!take_flag(symbols.has_collectives) || !take_value(bytes, symbols.code) || !take_flag(has_marker) ||
      !take_value(bytes, marker) || !take_flag(has_world) || !take_value(bytes, world) ||
      (has_marker && (marker.function_offset >= file_bytes || marker.semaphore_offset >= file_bytes))) {
    return std::nullopt;
  }
  symbols.marker = has_marker ? std::optional(marker) : std::nullopt;
  symbols.mpi_world = has_world ? std::optional(world) : std::nullopt;
  std::set<uint64_t> offsets;
  uint32_t python_points = 0;
  if (!take_value(bytes, python_points) || python_points > kMostPythonPoints) {
    return std::nullopt;
  }
  for (uint32_t i = 0; i < python_points; ++i) {
    PythonPoint point;
    if (!take_value(bytes, point.offset) || !take_value(bytes, point.function) || !take_value(bytes, point.minor) ||
        !take_value(bytes, point.runtime_distance) || point.offset >= file_bytes ||
        point.function > ST_PYTHON_DISPLAYS || point.minor >= ST_PYTHON_VERSIONS ||
        !offsets.insert(point.offset).second) {
      return std::nullopt;
    }
    symbols.python.push_back(point);
  }
  while (!bytes.empty()) {
    ProbePoint point;
    if (!take_value(bytes, point.offset) || !take_value(bytes, point.row) || !take_flag(point.int_handles) ||
        point.row >= call_table().size() || point.offset >= file_bytes || !offsets.insert(point.offset).second ||
        offsets.size() > kMostProbePoints) {
      return std::nullopt;
    }
    symbols.points.push_back(point);
  }
  return symbols;
}

}  // namespace stalltrace::capture
