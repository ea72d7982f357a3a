// SPDX-License-Identifier: Apache-2.0
#include "plugin/box/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "plugin/box/field.h"
#include "plugin/box/file_status.h"
#include "plugin/wire/redaction.h"

namespace stalltrace::plugin {
namespace {

struct Launcher {
  const char* rank;
  const char* local_rank;
  const char* world_size;
};

constexpr Launcher kLaunchers[] = {
    {"RANK", "LOCAL_RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"},
    {"PMIX_RANK", "", ""},
    {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
};
constexpr const char* kJobIds[] = {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"};
constexpr long kMaxRanks = 1L << 24;

template <size_t Size>
void set_text(char (&field)[Size], const char* text) {
  std::memset(field, 0, Size);
  if (text != nullptr) {
    std::memcpy(field, text, strnlen(text, Size - 1));
  }
}

/// Reads the first bytes of a file, NUL-terminated; returns how many.
size_t read_start(const char* path, char* buffer, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? 0 : read(fd, buffer, size - 1);
  if (fd >= 0) {
    close(fd);
  }
  const size_t length = got < 0 ? 0 : static_cast<size_t>(got);
  buffer[length] = '\0';
  return length;
}

int32_t number_of_variable(const char* name) {
  const char* text = getenv(name);
  if (text == nullptr || *text == '\0') {
    return -1;
  }
  char* rest = nullptr;
  const long number = strtol(text, &rest, 10);
  return *rest == '\0' && number >= 0 && number < kMaxRanks ? static_cast<int32_t>(number) : -1;
}

void describe_job(st_box_header& header) {
  header.env_rank = header.env_local_rank = header.env_world_size = -1;
  for (const Launcher& launcher : kLaunchers) {
    header.env_rank = number_of_variable(launcher.rank);
    if (header.env_rank >= 0) {
      header.env_local_rank = number_of_variable(launcher.local_rank);
      header.env_world_size = number_of_variable(launcher.world_size);
      break;
    }
  }
  for (const char* name : kJobIds) {
    if (const char* id = getenv(name); id != nullptr && *id != '\0') {
      set_text(header.job_id, id);
      break;
    }
  }
}

/// Reads more than is kept: redaction needs the text around a secret.
void describe_command(st_box_header& header) {
  char command[4096];
  size_t length = read_start("/proc/self/cmdline", command, sizeof(command));
  while (length > 0 && command[length - 1] == '\0') {
    --length;
  }
  const char* wanted = getenv("STALLTRACE_COMMANDS");
  if (wanted == nullptr || strcmp(wanted, "whole") != 0) {
    length = redaction::redact_command_line(command, length);
  }
  length = length < sizeof(header.command) - 1 ? length : sizeof(header.command) - 1;
  std::memset(header.command, 0, sizeof(header.command));
  for (size_t index = 0; index < length; ++index) {
    header.command[index] = command[index] == '\0' ? ' ' : command[index];
  }
}

uint64_t inode_of(const char* path) {
  struct stat info {};
  return read_status(path, &info) ? info.st_ino : 0;
}

/// 16 bits, not 0, that distinguish this process's ids from those of other processes.
uint32_t tag_of(const st_box_header& header) {
  uint64_t mixed = header.process_start_ticks << 32 ^ header.pid ^ header.pid_namespace << 20 ^ header.created_ns << 7;
  mixed ^= mixed >> 30;
  mixed *= 0xbf58476d1ce4e5b9;
  mixed ^= mixed >> 27;
  mixed *= 0x94d049bb133111eb;
  mixed ^= mixed >> 31;
  const auto tag = static_cast<uint32_t>(mixed & 0xffff);
  return tag != 0 ? tag : 1;
}

}  // namespace

uint64_t process_start_ticks() {
  char stat_line[1024];
  read_start("/proc/self/stat", stat_line, sizeof(stat_line));
  const char* field = strrchr(stat_line, ')');  // the name before it may contain anything
  for (int number = 2; field != nullptr && number < 22; ++number) {
    field = strchr(field + 1, ' ');
  }
  return field != nullptr ? strtoull(field, nullptr, 10) : 0;
}

void describe_process(st_box_header& header) {
  header.pid = static_cast<uint32_t>(getpid());
  header.uid = geteuid();
  header.process_start_ticks = process_start_ticks();
  header.ticks_per_second = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  header.pid_namespace = inode_of("/proc/self/ns/pid");
  header.network_namespace = inode_of("/proc/self/ns/net");
  header.created_ns = now_ns();
  header.created_realtime_ns = clock_ns(CLOCK_REALTIME);
  header.process_tag = tag_of(header);

  char boot_id[sizeof(header.boot_id)];
  const size_t length = read_start("/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id));
  if (length != 0 && boot_id[length - 1] == '\n') {
    boot_id[length - 1] = '\0';
  }
  set_text(header.boot_id, boot_id);
  gethostname(header.hostname, sizeof(header.hostname) - 1);
  set_text(header.node, getenv("STALLTRACE_NODE"));
  prctl(PR_GET_NAME, header.thread_name);
  describe_command(header);
  describe_job(header);
}

}  // namespace stalltrace::plugin
