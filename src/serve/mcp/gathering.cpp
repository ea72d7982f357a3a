// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp/gathering.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "serve/json/schema.h"
#include "serve/mcp/tools/answers.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr std::string_view kArgument = "gather_again";
constexpr size_t kProblemBytes = 200;

/// How much of the missing nodes an answer names: all answers are bounded.
struct Bounds {
  size_t problems = 4;
  size_t names_bytes = 200;
};
constexpr Bounds kInFull{.problems = 8, .names_bytes = 1000};

/// By problem, since many nodes fail alike.
Json missing_by_problem(const Recordings::Gathered& gathered, const Bounds& bounds) {
  struct Alike {
    std::string nodes;
    size_t count = 0;
  };
  std::map<std::string_view, Alike> by_problem;
  for (const auto& [node, problem] : gathered.missing) {
    Alike& alike = by_problem[problem];
    alike.nodes += (alike.count == 0 ? "" : ", ") + printable(node);
    ++alike.count;
  }
  std::vector<std::pair<std::string_view, Alike>> rows(by_problem.begin(), by_problem.end());
  std::ranges::stable_sort(rows, std::ranges::greater(), [](const auto& row) { return row.second.count; });
  return first_of(rows.size(), bounds.problems, [&](size_t i) {
    return Json::object({{"problem", report_text(rows[i].first, kProblemBytes)},
                         {"nodes", cut_text(rows[i].second.nodes, bounds.names_bytes)},
                         {"nodes_total", rows[i].second.count}});
  });
}

Json gathered_schema() {
  return schema::object(
      {schema::required("utc", schema::text("when the nodes were asked")), schema::required("age_s", schema::number()),
       schema::required("nodes_asked", schema::integer()),
       schema::required("nodes_missing", schema::integer("of which nothing is in this answer")),
       schema::required("missing", schema::list_of(schema::object({schema::required("problem", report_text_schema()),
                                                                   schema::required("nodes", schema::text()),
                                                                   schema::required("nodes_total", schema::integer())}),
                                                   "by what is wrong"))},
      "the copies that this is of");
}

}  // namespace

void add_gathering(Tool& tool) {
  tool.input.find("properties")
      ->set(kArgument,
            schema::boolean("first ask the nodes again; takes as long as they need to send their recordings"));
  tool.output.find("properties")->set("gathered", gathered_schema());
}

bool asks_to_gather(const Json& arguments) {
  const Json* given = arguments.find(kArgument);
  return given != nullptr && given->boolean() != nullptr && *given->boolean();
}

void add_gathered(Answer& answer, const Recordings::Gathered& gathered, bool in_full) {
  const int64_t age_ns = std::max<int64_t>(utc_now_ns() - gathered.asked_ns, 0);
  answer.data.set("gathered", Json::object({{"utc", format_utc(gathered.asked_ns)},
                                            {"age_s", seconds(age_ns)},
                                            {"nodes_asked", gathered.nodes},
                                            {"nodes_missing", gathered.missing.size()},
                                            {"missing", missing_by_problem(gathered, in_full ? kInFull : Bounds())}}));
  const std::string missing = missing_nodes(gathered);
  answer.text += fmt::format(" Gathered {} ago{}.", format_duration(age_ns), missing.empty() ? "" : "; " + missing);
}

std::string missing_nodes(const Recordings::Gathered& gathered) {
  const size_t count = gathered.missing.size();
  return count == 0 ? ""
                    : fmt::format("{} of {} {} missing: health names {}", count,
                                  count_of(static_cast<int64_t>(gathered.nodes), "node"), count == 1 ? "is" : "are",
                                  count == 1 ? "it" : "them");
}

}  // namespace stalltrace::serve::mcp
