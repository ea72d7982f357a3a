// SPDX-License-Identifier: Apache-2.0
// The minimum cost of probing: an entry and a return probe whose program only returns 0, on every function that
// stalltrace would probe, with the same kind of link.
//
//   bench_empty_probes LIBRARY...      prints a line when attached; detaches when its standard input ends
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <vector>

#include "capture/discover/elf_symbols.h"
#include "capture/kernel/uprobe_multi.h"

namespace stalltrace {
namespace {

Result<UniqueFd> load_empty_program() {
  const bpf_insn program[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
                              {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = capture::kTraceUprobeMulti);
  UniqueFd fd(bpf_prog_load(BPF_PROG_TYPE_KPROBE, "empty", "GPL", program, std::size(program), &options));
  if (!fd) {
    return fail_errno("load the empty program", errno, "needs root and Linux 6.6");
  }
  return fd;
}

Status attach(const std::string& path, std::vector<UniqueFd>& links, size_t& points) {
  ST_ASSIGN(const capture::FileSymbols symbols, capture::find_probe_points(path));
  std::vector<uint64_t> offsets;
  for (const capture::ProbePoint& point : symbols.points) {
    offsets.push_back(point.offset);
  }
  const std::vector<uint64_t> cookies(offsets.size());
  points += offsets.size();
  for (const bool at_return : {true, false}) {
    ST_ASSIGN(const UniqueFd program, load_empty_program());
    ST_ASSIGN(UniqueFd link, capture::link_uprobe_multi(program.get(), path, offsets, cookies, at_return));
    links.push_back(std::move(link));
  }
  return {};
}

int run(std::span<char*> paths) {
  std::vector<UniqueFd> links;
  size_t points = 0;
  for (const char* path : paths) {
    if (const Status status = attach(path, links, points); !status) {
      fmt::print(stderr, "bench_empty_probes: {}\n", status.error().what);
      return 1;
    }
  }
  fmt::print("attached to {} functions\n", points);
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

}  // namespace
}  // namespace stalltrace

int main(int argc, char** argv) { return stalltrace::run(std::span(argv + 1, static_cast<size_t>(argc - 1))); }
