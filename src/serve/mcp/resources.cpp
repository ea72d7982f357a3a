// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "model/finding.h"

extern "C" {
extern const char st_page_recording[];
extern const char st_page_recording_end[];
extern const char st_page_findings[];
extern const char st_page_findings_end[];
extern const char st_page_queries[];
extern const char st_page_queries_end[];
extern const char st_page_runbook[];
extern const char st_page_runbook_end[];
}

namespace stalltrace::serve::mcp {
namespace {

constexpr std::string_view kCausePrefix = "stalltrace://causes/";

struct Page {
  std::string_view uri;
  std::string_view name;
  std::string_view title;
  std::string_view description;
  const char* begin;
  const char* end;

  [[nodiscard]] std::string_view text() const { return {begin, static_cast<size_t>(end - begin)}; }
};

const std::array<Page, 4>& pages() {
  static const std::array<Page, 4> kPages{{
      {"stalltrace://runbook", "runbook", "Runbook",
       "which tool answers which symptom, in which order; short: read it first", st_page_runbook, st_page_runbook_end},
      {"stalltrace://causes", "causes", "Causes and how they are decided",
       "every cause, the evidence that it needs, and its thresholds; long: stalltrace://causes/{cause} has one",
       st_page_findings, st_page_findings_end},
      {"stalltrace://schema", "schema", "Tables of a recording", "every table and column, for the tool sql; long",
       st_page_recording, st_page_recording_end},
      {"stalltrace://queries", "queries", "SQL recipes", "queries that answer common questions, for the tool sql",
       st_page_queries, st_page_queries_end},
  }};
  return kPages;
}

/// The section of docs/findings.md about one cause: from its heading to the next one of its level or above. None if no
/// cause has this name.
std::optional<std::string> cause_section(std::string_view cause) {
  if (!cause_from_text(cause)) {
    return std::nullopt;
  }
  std::string section;
  size_t level = 0;
  for (const std::string_view line : split(pages()[1].text(), '\n')) {
    const size_t hashes = line.starts_with('#') ? line.find_first_not_of('#') : 0;
    if (level == 0 && hashes > 0 && line.find(fmt::format("`{}`", cause)) != std::string_view::npos) {
      level = hashes;
    } else if (level > 0 && hashes > 0 && hashes <= level) {
      break;
    }
    if (level > 0) {
      section += fmt::format("{}\n", line);
    }
  }
  return section.empty()
             ? std::optional(fmt::format("`{}` has no section of its own; see stalltrace://causes.\n", cause))
             : std::optional(std::move(section));
}

Json content_of(std::string_view uri, std::string_view text) {
  return Json::object(
      {{"contents", Json::array({Json::object({{"uri", uri}, {"mimeType", "text/markdown"}, {"text", text}})})}});
}

}  // namespace

Json list_resources() {
  Json list = Json::array();
  for (const Page& page : pages()) {
    list.push_back(Json::object({{"uri", page.uri},
                                 {"name", page.name},
                                 {"title", page.title},
                                 {"description", page.description},
                                 {"mimeType", "text/markdown"},
                                 {"size", page.text().size()}}));
  }
  return Json::object({{"resources", std::move(list)}});
}

Json list_resource_templates() {
  return Json::object(
      {{"resourceTemplates", Json::array({Json::object({{"uriTemplate", "stalltrace://causes/{cause}"},
                                                        {"name", "cause"},
                                                        {"title", "One cause"},
                                                        {"description", "the rules of one cause, as findings names it"},
                                                        {"mimeType", "text/markdown"}})})}});
}

Answered<Json> read_resource(const Json& params, Era era) {
  const Json* uri = params.find("uri");
  if (uri == nullptr || uri->text() == nullptr) {
    return refuse(ErrorCode::kInvalidParams, "uri is no text");
  }
  const std::string& asked = *uri->text();
  const auto found = std::ranges::find(pages(), asked, &Page::uri);
  if (found != pages().end()) {
    return content_of(asked, found->text());
  }
  if (asked.starts_with(kCausePrefix)) {
    if (const std::optional<std::string> section = cause_section(std::string_view(asked).substr(kCausePrefix.size()))) {
      return content_of(asked, *section);
    }
  }
  return refuse(era == Era::kModern ? ErrorCode::kInvalidParams : ErrorCode::kResourceNotFound,
                "there is no such resource; resources/list has them", Json::object({{"uri", *uri}}));
}

}  // namespace stalltrace::serve::mcp
