// SPDX-License-Identifier: Apache-2.0
// The text of `explain --instance`.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/text.h"
#include "report/inspection.h"
#include "report/page.h"

namespace stalltrace::report {
namespace {

std::string verdict_of(const Inspection& inspection) {
  for (const InspectedPart& part : inspection.parts) {
    if (part.stall && part.finding) {
      return fmt::format("a stall, counted in finding [{}]", *part.finding);
    }
  }
  for (const InspectedPart& part : inspection.parts) {
    if (part.stall) {
      return "a stall, but stalls of this cause and location cost too little to be a finding";
    }
  }
  return inspection.outside_range ? "outside of --from/--to" : "no stall";
}

std::string like_text(const InspectedLike& like) {
  if (like.count == 0) {
    return "no complete instance of its communicator, operation and size";
  }
  if (like.by_reference) {
    return fmt::format(
        "{} instances of its operation, size, ranks and hosts in the run given by --like: usual {}; in this run median "
        "{}, median absolute deviation {}; a stall over {}",
        like.count, format_duration(like.usual_ns), format_duration(like.median_ns), format_duration(like.mad_ns),
        format_duration(like.limit_ns));
  }
  return fmt::format(
      "{} instances of its communicator, operation and size: usual {}, median {}, median absolute "
      "deviation {}; a stall over {}{}",
      like.count, format_duration(like.usual_ns), format_duration(like.median_ns), format_duration(like.mad_ns),
      format_duration(like.limit_ns), like.enough ? "" : " (too few to show what is usual)");
}

constexpr const char* kUnobserved = "its end is not reported";

bool is_open(const InspectedCall& call) { return !call.end_ns && !call.unobserved; }

std::string split_text(const Inspection& inspection) {
  const bool open = std::ranges::any_of(inspection.calls, [](const InspectedCall& call) { return is_open(call); });
  const std::string transfer = inspection.transfer_ns
                                   ? fmt::format("transfer {}", format_duration(*inspection.transfer_ns))
                               : open ? "not ended"
                                      : kUnobserved;
  const std::string p =
      inspection.split ? fmt::format("; P = {:.2f} (1: one late rank, 0: a slow transfer)", *inspection.split) : "";
  return fmt::format(
      "the middle rank waited {} for the last, {}{}{}", format_duration(inspection.late_ns), transfer, p,
      inspection.warming_up ? "; one of the first of its communicator, which connect and touch memory" : "");
}

/// "+23 ms", "-905 ms": from the first arrival. A step that its ranks began before it is judged with it.
std::string signed_duration(int64_t offset_ns) { return (offset_ns < 0 ? "" : "+") + format_duration(offset_ns); }

void write_calls(Page& page, const Inspection& inspection) {
  const int64_t first_ns = inspection.calls.empty() ? 0 : inspection.calls.front().arrival_ns;
  for (size_t i = 0; i < inspection.calls.size(); ++i) {
    const InspectedCall& call = inspection.calls[i];
    const std::string end = call.end_ns     ? "ended " + signed_duration(*call.end_ns - first_ns)
                            : is_open(call) ? "has not ended"
                                            : kUnobserved;
    page.field(i == 0 ? "ranks" : "",
               printable(fmt::format("{} came {}, {}", call.who, signed_duration(call.arrival_ns - first_ns), end)));
  }
  for (const std::string& who : inspection.absent) {
    page.field("", printable(who + " did not come"));
  }
}

std::string cause_text(const InspectedCause& cause, bool stall) {
  if (!cause.share) {
    return cause.text.empty() ? std::string(to_text(cause.cause))
                              : fmt::format("{}: {}", to_text(cause.cause), cause.text);
  }
  const std::string_view verdict = cause.chosen    ? cause.dismissed ? ", chosen: ordinary, no fault" : ", chosen"
                                   : cause.applies ? (stall ? ", covered no better than the chosen one" : ", enough")
                                                   : ", not enough";
  return fmt::format("{}: {} ({:.0f} %{})", to_text(cause.cause), cause.text, 100 * *cause.share, verdict);
}

std::string_view part_verdict(const InspectedPart& part) {
  return part.stall ? "a stall" : part.reason == VerdictReason::kOutsideRange ? "outside of --from/--to" : "no stall";
}

void write_part(Page& page, const Inspection& inspection, const InspectedPart& part) {
  const int64_t first_ns = inspection.calls.empty() ? part.time.from_ns : inspection.calls.front().arrival_ns;
  page.line();
  page.line(fmt::format("{} {} to {}: {}", page.paint(part.name, kBold), signed_duration(part.time.from_ns - first_ns),
                        signed_duration(part.time.to_ns - first_ns), part_verdict(part)));
  page.field("why", part.why);
  for (const bool had : {true, false}) {
    if (!had && !part.stall) {
      continue;  // what needs no explanation lacks no evidence
    }
    bool first = true;
    for (const InspectedCause& cause : part.causes) {
      if ((cause.share.has_value() || cause.chosen) == had) {
        page.field(first ? (had ? "had" : "missing") : "", printable(cause_text(cause, part.stall)));
        first = false;
      }
    }
  }
}

}  // namespace

std::string inspection_to_text(const Inspection& inspection, const TextOptions& options) {
  Page page(options.colour);
  const std::string where =
      inspection.comm_id_hash == 0
          ? "on a communicator made before tracing"
          : fmt::format("number {} on communicator {}", inspection.number, format_hash(inspection.comm_id_hash));
  const std::string attempt = inspection.attempt ? fmt::format(" of job attempt {}", *inspection.attempt) : "";
  page.line(fmt::format("{} of {} {}{}: {}", display_name(inspection.op), format_size(inspection.bytes), where, attempt,
                        page.paint(verdict_of(inspection), kBold)));
  page.field("when", inspection.calls.empty() ? "" : format_utc(inspection.calls.front().arrival_ns));
  write_calls(page, inspection);
  page.field("compared", like_text(inspection.like));
  page.field("split", split_text(inspection));
  for (const InspectedPart& part : inspection.parts) {
    write_part(page, inspection, part);
  }
  return page.take();
}

}  // namespace stalltrace::report
