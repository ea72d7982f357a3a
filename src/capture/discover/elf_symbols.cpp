// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/elf_symbols.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/elf/elf_file.h"
#include "base/file.h"
#include "base/hash.h"
#include "plugin/wire/marker.h"
#include "stacks/python/layout.h"
#include "wire/python.h"

namespace stalltrace::capture {
namespace {

/// Every file of interest defines at least one of these names: searching the string table for them rules out most files
/// without walking hundreds of thousands of symbols.
constexpr std::string_view kOpenMpiWorld = "ompi_mpi_comm_world";
constexpr std::string_view kPythonRuntime = "_PyRuntime";
constexpr std::array<std::string_view, 10> kSentinels{kOpenMpiWorld,           kPythonRuntime,
                                                      "ncclAllReduce",         "MPI_Allreduce",
                                                      "_ZN4gloo9allreduceE",   "_ZN4c10d16ProcessGroupGloo7runLoopE",
                                                      "cudaStreamSynchronize", "cuStreamSynchronize",
                                                      "hipStreamSynchronize",  ST_MARKER_FUNCTION};

/// MPICH and libraries with its binary interface (Intel MPI, MVAPICH, Cray MPI) must define this function: programs
/// call it by mpi.h's MPI_DUP_FN. OpenMPI's is OMPI_C_MPI_DUP_FN.
constexpr std::string_view kOfIntHandles = "MPIR_Dup_fn";

constexpr size_t kCodeBytes = 16;  // bytes compared at each point

const std::unordered_map<std::string_view, uint32_t>& rows_by_symbol() {
  static const auto rows = [] {
    std::unordered_map<std::string_view, uint32_t> result;
    const auto table = call_table();
    for (uint32_t row = 0; row < table.size(); ++row) {
      result.emplace(table[row].symbol, row);
    }
    return result;
  }();
  return rows;
}

uint64_t code_at(const ElfFile& elf, const FileSymbols& symbols) {
  std::array<std::byte, kCodeBytes> bytes{};
  uint64_t hash = 0;
  const auto take = [&](uint64_t offset) {
    bytes.fill(std::byte{0});
    for (size_t size = bytes.size(); size > 0 && !elf.read(offset, std::span(bytes).first(size)); size /= 2) {
    }  // a function may end at the end of the file
    hash = splitmix64_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, hash);
  };
  for (const ProbePoint& point : symbols.points) {
    take(point.offset);
  }
  for (const PythonPoint& point : symbols.python) {
    take(point.offset);
  }
  if (symbols.marker) {
    take(symbols.marker->function_offset);
  }
  return hash;
}

/// The symbols of a CPython interpreter.
class PythonCollector {
 public:
  explicit PythonCollector(const ElfFile& elf) : elf_(elf) {}

  void note(const Elf64_Sym& symbol, std::string_view name) {
    const auto known = std::ranges::find(kNames, name);
    if (known != kNames.end()) {
      uint64_t& address = addresses_[static_cast<size_t>(known - kNames.begin())];
      address = address != 0 ? address : symbol.st_value;
    }
  }

  /// Empty for a file that is no interpreter, or one whose layout is not known.
  [[nodiscard]] std::vector<PythonPoint> points() const {
    const uint64_t runtime = addresses_[kRuntime];
    const uint32_t minor = runtime != 0 ? minor_version() : 0;
    std::vector<PythonPoint> points;
    if (!stacks::layout_of(minor) || is_free_threaded(minor, runtime)) {
      return points;
    }
    for (const auto& [name, function] :
         {std::pair(kPrints, ST_PYTHON_PRINTS), std::pair(kDisplays, ST_PYTHON_DISPLAYS)}) {
      const auto offset = addresses_[name] != 0 ? elf_.file_offset(addresses_[name], 1, PF_X) : std::nullopt;
      const auto distance = static_cast<int64_t>(runtime - addresses_[name]);
      if (offset && distance == static_cast<int32_t>(distance)) {
        points.push_back({*offset, static_cast<uint32_t>(function), minor, static_cast<int32_t>(distance)});
      }
    }
    return points;
  }

 private:
  enum Name : size_t { kRuntime, kVersion, kPrints, kDisplays, kSince310, kSince39 };
  static constexpr std::array<std::string_view, 6> kNames{
      kPythonRuntime, "Py_Version", "PyErr_PrintEx", "_PyErr_Display", "PyModule_AddObjectRef", "PyModule_AddType"};

  /// From Py_Version; it came with 3.11, before only functions show it (docs.python.org/3/whatsnew, "New Features" of
  /// the C API).
  [[nodiscard]] uint32_t minor_version() const {
    if (addresses_[kVersion] == 0) {
      return addresses_[kSince310] != 0 ? 10 : addresses_[kSince39] != 0 ? 9 : 0;
    }
    const uint64_t version = value_at(addresses_[kVersion]);
    return version >> 24U == 3 ? static_cast<uint32_t>(version >> 16U & 255U) : 0;
  }

  /// From 3.13 on the runtime begins with a description of itself, part of the file: a name, the version, this flag.
  [[nodiscard]] bool is_free_threaded(uint32_t minor, uint64_t runtime) const {
    constexpr uint32_t kFirstWithDescription = 13;
    constexpr uint64_t kFlagAt = 16;
    return minor >= kFirstWithDescription && value_at(runtime + kFlagAt) != 0;
  }

  [[nodiscard]] uint64_t value_at(uint64_t address) const {
    uint64_t value = 0;
    const auto offset = elf_.file_offset(address, sizeof value, 0);
    return offset && elf_.read(*offset, std::as_writable_bytes(std::span(&value, 1))) ? value : UINT64_MAX;
  }

  const ElfFile& elf_;
  std::array<uint64_t, kNames.size()> addresses_{};
};

class SymbolCollector {
 public:
  explicit SymbolCollector(const ElfFile& elf) : elf_(elf), python_(elf) {}

  /// Takes the table's rows from one symbol table; `accept` filters by family.
  template <typename Accept>
  void collect(uint32_t type, const Accept& accept) {
    elf_.each_name(type, kSentinels, [&](const Elf64_Sym& symbol, std::string_view name) {
      note_others(symbol, name);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) {
        return;
      }
      const auto found = rows_by_symbol().find(name);
      if (found == rows_by_symbol().end() || !accept(call_table()[found->second].family)) {
        return;
      }
      if (const auto offset = elf_.file_offset(symbol.st_value, std::max<uint64_t>(symbol.st_size, 1), PF_X)) {
        add({behind_load(*offset, symbol.st_size), found->second});
      }
    });
  }

  FileSymbols take() {
    if (marker_.function_offset != 0 && marker_.semaphore_offset != 0) {
      result_.marker = marker_;
    }
    for (ProbePoint& point : result_.points) {
      point.int_handles = int_handles_ && call_table()[point.row].spec.library == static_cast<__u8>(Library::kMpi);
    }
    result_.python = python_.points();
    result_.code = code_at(elf_, result_);
    return std::move(result_);
  }
  [[nodiscard]] bool has_collectives() const { return result_.has_collectives; }

 private:
  /// Probe address for a function that begins with "mov disp32(%rip), %rax; push": the push. The kernel emulates a push
  /// (Linux 4.16), while the load costs a second trap for a single step. Arguments and stack pointer are still
  /// unchanged there.
  [[nodiscard]] uint64_t behind_load(uint64_t offset, uint64_t function_bytes) const {
#if defined(__x86_64__)
    constexpr std::array<std::byte, 3> kLoad{std::byte{0x48}, std::byte{0x8b}, std::byte{0x05}};
    constexpr size_t kLoadBytes = 7;
    constexpr std::byte kRexB{0x41};  // before a push of r8 to r15
    std::array<std::byte, kLoadBytes + 2> begin{};
    if (function_bytes < begin.size() || !elf_.read(offset, begin) ||
        !std::equal(kLoad.begin(), kLoad.end(), begin.begin())) {
      return offset;
    }
    const std::byte opcode = begin[kLoadBytes] == kRexB ? begin[kLoadBytes + 1] : begin[kLoadBytes];
    return opcode >= std::byte{0x50} && opcode <= std::byte{0x57} ? offset + kLoadBytes : offset;
#else
    (void)function_bytes;
    return offset;
#endif
  }

  void note_others(const Elf64_Sym& symbol, std::string_view name) {
    const uint32_t type = ELF64_ST_TYPE(symbol.st_info);
    if (type == STT_FUNC && name == ST_MARKER_FUNCTION) {
      marker_.function_offset = elf_.file_offset(symbol.st_value, 1, PF_X).value_or(0);
    } else if (type == STT_OBJECT && name == ST_MARKER_SEMAPHORE) {
      const auto offset = elf_.file_offset(symbol.st_value, sizeof(uint16_t), PF_W);
      marker_.semaphore_offset = offset && *offset % sizeof(uint16_t) == 0 ? *offset : 0;
    } else if (type == STT_OBJECT && name == kOpenMpiWorld) {
      if (const auto segment = elf_.first_code_segment()) {
        result_.mpi_world = MpiWorld{.address = symbol.st_value,
                                     .segment_address = segment->p_vaddr,
                                     .segment_offset = segment->p_offset,
                                     .segment_bytes = segment->p_filesz};
      }
    }
    int_handles_ |= name == kOfIntHandles;
    python_.note(symbol, name);
  }

  void add(ProbePoint point) {
    const bool known = std::any_of(result_.points.begin(), result_.points.end(),
                                   [&](const ProbePoint& other) { return other.offset == point.offset; });
    if (!known && result_.points.size() < kMostProbePoints) {
      result_.points.push_back(point);
    }
    result_.has_collectives |= call_table()[point.row].family == CallFamily::kCollectiveLibrary;
  }

  const ElfFile& elf_;
  PythonCollector python_;
  MarkerPoint marker_;
  bool int_handles_ = false;
  FileSymbols result_;
};

}  // namespace

uint64_t MpiWorld::address_in(const MappedFile& mapping) const {
  // A mapping consists of whole pages, so it may begin before its segment.
  const bool overlaps = segment_offset < mapping.offset + (mapping.end - mapping.start) &&
                        mapping.offset < segment_offset + segment_bytes;
  return overlaps ? address + mapping.start - mapping.offset + segment_offset - segment_address : 0;
}

Result<FileSymbols> find_probe_points(int fd) {
  const std::optional<ElfFile> elf = ElfFile::open(fd);
  if (!elf) {
    return fail("not an ELF file", {}, ErrorKind::kCorrupt);
  }
  if (!elf->is_of_this_machine()) {
    return FileSymbols{};
  }
  SymbolCollector collector(*elf);
  collector.collect(SHT_DYNSYM, [](CallFamily) { return true; });
  // A collective library contains the GPU runtime under local names: those calls are its own, not the job's.
  const bool is_collective_library = collector.has_collectives();
  collector.collect(SHT_SYMTAB, [&](CallFamily family) {
    return family == CallFamily::kCollectiveLibrary || !is_collective_library;
  });
  return collector.take();
}

Result<FileSymbols> find_probe_points(const std::string& path) {
  ST_ASSIGN(const UniqueFd fd, open_regular(path));
  auto symbols = find_probe_points(fd.get());
  return symbols ? std::move(symbols) : with_context(path, std::move(symbols.error()));
}

bool has_same_code(int fd, const FileSymbols& symbols) {
  const std::optional<ElfFile> elf = ElfFile::open(fd);
  return elf && code_at(*elf, symbols) == symbols.code;
}

}  // namespace stalltrace::capture
