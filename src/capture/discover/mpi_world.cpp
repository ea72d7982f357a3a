// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/mpi_world.h"

#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <unistd.h>

#include <memory>
#include <string_view>

#include "base/handle.h"
#include "base/hash.h"

namespace stalltrace::capture {
namespace {

using ElfHandle = std::unique_ptr<Elf, Free<elf_end>>;

constexpr std::string_view kOpenMpiWorld = "ompi_mpi_comm_world";
constexpr uint64_t kMpichWorld = 0x44000000;

std::string_view value_of(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

/// What is to be added to the file's addresses. Mappings begin at page boundaries.
uint64_t load_bias(Elf* elf, uint64_t code_start) {
  size_t segments = 0;
  elf_getphdrnum(elf, &segments);
  for (size_t i = 0; i < segments; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) && segment.p_type == PT_LOAD && (segment.p_flags & PF_X)) {
      return code_start - (segment.p_vaddr & ~(static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) - 1));
    }
  }
  return 0;
}

/// The object's address in the file; 0: not defined.
uint64_t defined_at(Elf* elf, std::string_view name) {
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM || header.sh_entsize == 0) {
      continue;
    }
    Elf_Data* data = elf_getdata(section, nullptr);
    for (int i = 0; data && i < static_cast<int>(header.sh_size / header.sh_entsize); ++i) {
      GElf_Sym symbol;
      if (!gelf_getsym(data, i, &symbol) || symbol.st_shndx == SHN_UNDEF ||
          GELF_ST_TYPE(symbol.st_info) != STT_OBJECT) {
        continue;
      }
      const char* found = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (found && name == found) {
        return symbol.st_value;
      }
    }
  }
  return 0;
}

}  // namespace

uint64_t job_key(std::string_view job_id, const Environment& environment) {
  const std::string_view port = value_of(environment, "MASTER_PORT");
  if (job_id.empty() && port.empty()) {
    return 0;
  }
  return splitmix64_text(port, splitmix64_text(job_id));
}

uint64_t address_of_object(const std::string& path, std::string_view name, uint64_t code_start) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || elf_version(EV_CURRENT) == EV_NONE) {
    return 0;
  }
  const ElfHandle elf(elf_begin(fd.get(), ELF_C_READ_MMAP, nullptr));
  const uint64_t address = elf && elf_kind(elf.get()) == ELF_K_ELF ? defined_at(elf.get(), name) : 0;
  return address == 0 ? 0 : address + load_bias(elf.get(), code_start);
}

uint64_t mpi_world_handle(const Procfs& procfs, pid_t pid) {
  const auto mappings = procfs.executable_mappings(pid);
  if (!mappings) {
    return 0;
  }
  const std::string program = procfs.executable(pid);
  uint64_t in_library = 0;
  bool maps_mpi = false;
  for (const MappedFile& file : *mappings) {
    const bool is_mpi = file.path.find("/libmpi") != std::string::npos;
    maps_mpi = maps_mpi || is_mpi;
    if (!is_mpi && file.path != program) {
      continue;
    }
    for (const std::string& path : procfs.host_paths(pid, file)) {
      const uint64_t address = address_of_object(path, kOpenMpiWorld, file.start);
      if (address != 0 && file.path == program) {
        return address;  // the program's copy is the one that all use
      }
      in_library = in_library ? in_library : address;
    }
  }
  return in_library || !maps_mpi ? in_library : kMpichWorld;
}

}  // namespace stalltrace::capture
