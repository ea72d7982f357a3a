// SPDX-License-Identifier: Apache-2.0
#include "report/profile_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace stalltrace::report {
namespace {

constexpr size_t kTracesListed = 64;

double percent(int64_t part, int64_t whole) {
  return whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string collective_text(const TraceCollective& one) {
  std::string what = one.op;
  if (one.elements) {
    what += fmt::format(" of {} {}", *one.elements, one.datatype.empty() ? "elements" : one.datatype);
  } else if (one.ordinal) {
    what += fmt::format(", number {} of a step", *one.ordinal);
  }
  if (!one.process_group.empty()) {
    what += fmt::format(" ({})", one.process_group);
  }
  return fmt::format("{}: {}, {} on average, {} to {}; exposed {:.0f} %", what, count_of(one.calls, "call"),
                     format_duration(one.total_ns / std::max<int64_t>(one.calls, 1)), format_duration(one.shortest_ns),
                     format_duration(one.longest_ns), percent(one.exposed_ns, one.total_ns));
}

void write_profile(Page& page, const ProfileSummary& one) {
  page.line();
  const std::string rank =
      one.rank ? fmt::format("rank {}{}", *one.rank, one.world_size ? fmt::format(" of {}", *one.world_size) : "")
               : "a rank that the trace does not name";
  page.line(fmt::format("{}, {}", page.paint(rank, kBold),
                        one.steps > 0
                            ? fmt::format("{} in {}", count_of(one.steps, "step"), format_duration(one.duration_ns))
                            : format_duration(one.duration_ns)));
  page.field("trace", printable(one.file));
  const auto share = [&](int64_t part) {
    return fmt::format("{} ({:.0f} %)", format_duration(part), percent(part, one.duration_ns));
  };
  page.field("times",
             fmt::format("{} {}; communication {}, of which {} is exposed; idle {}",
                         one.on_device ? "computation on the device" : "operators on the CPU", share(one.compute_ns),
                         share(one.communication_ns), share(one.exposed_ns), share(one.idle_ns)));
  bool first = true;
  for (const TraceCollective& collective : one.collectives) {
    page.field(first ? "calls" : "", printable(collective_text(collective)));
    first = false;
  }
  if (one.more_collectives > 0) {
    page.field("", fmt::format("... and {} more kinds of calls", one.more_collectives));
  }
  first = true;
  for (const std::string& remark : one.remarks) {
    page.field(first ? "shows" : "", printable(remark));
    first = false;
  }
}

}  // namespace

std::string profiles_text(const Report& report) {
  return report.profiles.empty() ? "" : count_of(std::ssize(report.profiles), "profiler trace");
}

void write_profiles(Page& page, const Report& report) {
  for (size_t i = 0; i < report.profiles.size() && i < kTracesListed; ++i) {
    write_profile(page, report.profiles[i]);
  }
  if (report.profiles.size() > kTracesListed) {
    page.line();
    page.line(fmt::format("... and {} more traces; --json has all", report.profiles.size() - kTracesListed));
  }
}

}  // namespace stalltrace::report
