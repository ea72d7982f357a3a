// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/set_up/transfer_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "analysis/thresholds/order.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostTransfersNamed = 4;
constexpr size_t kLongestTransferQuote = 300;

constexpr std::array<std::pair<int32_t, std::string_view>, 6> kStatuses{{
    {1, "a message was longer than its receiver expects"},
    {4, "memory of this end was not registered for it"},
    {9, "the other end refused the request"},
    {10, "the other end refused access to its memory"},
    {12, "the other end did not answer, however often it was sent"},
    {13, "the other end had no receive buffer, however often it was sent"},
}};

std::string_view meaning_of_status(int32_t status) {
  const auto* const found = std::ranges::find(kStatuses, status, &std::pair<int32_t, std::string_view>::first);
  return found == kStatuses.end() ? "see ibv_wc_status in libibverbs" : found->second;
}

std::optional<int32_t> leading_status(std::string_view text) {
  int32_t status = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), status);
  return error == std::errc() && status > 0 ? std::optional(status) : std::nullopt;
}

/// Names in the order in which they came, the first few of them, and how many there are.
class Names {
 public:
  /// False if it came before.
  bool add(std::string name) {
    const auto [known, fresh] = all_.insert(std::move(name));
    if (fresh && first_.size() < kMostTransfersNamed) {
      first_.push_back(*known);
    }
    return fresh;
  }
  [[nodiscard]] size_t size() const { return all_.size(); }
  /// "a", "a and b", "a, b, c, d and 2 more"
  [[nodiscard]] std::string text() const {
    const bool all = first_.size() == all_.size();
    std::string text;
    for (size_t i = 0; i < first_.size(); ++i) {
      text += (i == 0 ? "" : all && i + 1 == first_.size() ? " and " : ", ") + first_[i];
    }
    return all ? text : text + fmt::format(" and {} more", all_.size() - first_.size());
  }

 private:
  std::set<std::string> all_;
  std::vector<std::string> first_;
};

}  // namespace

std::optional<TransferError> transfer_error_in(std::string_view text) {
  const size_t at = text.find("Got completion ");
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = text.substr(at);
  std::optional<int32_t> status;
  for (const std::string_view key : {" with status=", " with error "}) {
    const size_t begin = rest.find(key);
    if (begin == std::string_view::npos) {
      continue;
    }
    const std::string_view value = rest.substr(begin + key.size());
    status = leading_status(value);
    const size_t open = value.substr(0, value.find(' ')).find('(');  // "IBV_WC_RETRY_EXC_ERR(12)"
    status = !status && open != std::string_view::npos ? leading_status(value.substr(open + 1)) : status;
  }
  if (!status) {
    return std::nullopt;
  }
  constexpr std::string_view kPeer = " from peer ";
  const size_t peer = rest.find(kPeer);
  const std::string_view name = peer == std::string_view::npos ? std::string_view() : rest.substr(peer + kPeer.size());
  return TransferError{*status, name.substr(0, name.find(' '))};
}

std::optional<Finding> judge_transfer_errors(const std::vector<TransferWarning>& warnings) {
  const auto first = std::ranges::find_if(warnings, [](const TransferWarning& one) { return !one.error.follows(); });
  if (first == warnings.end()) {
    return std::nullopt;
  }
  const int32_t status = first->error.status;
  Finding finding{.cause = Cause::kUnknown, .severity = Severity::kCritical, .confidence = kStandingStillConfidence};
  finding.cost_known = false;
  finding.window = {first->row->timestamp_ns, first->row->timestamp_ns};
  Names who;
  Names peers;
  int64_t others = 0;
  for (const TransferWarning& one : warnings) {
    if (one.error.status != status) {
      ++others;
      continue;
    }
    if (!one.error.peer.empty()) {
      peers.add(printable(one.error.peer));
    }
    if (who.add(one.who) && who.size() <= kMostTransfersNamed) {
      finding.evidence.push_back(
          {"log_line", 1, fmt::format("{}: {}", one.who, one.row->text.substr(0, kLongestTransferQuote)), {}});
    }
    finding.window.from_ns = std::min(finding.window.from_ns, one.row->timestamp_ns);
    finding.window.to_ns = std::max(finding.window.to_ns, one.row->timestamp_ns);
  }
  finding.summary =
      fmt::format("Transfers over InfiniBand or RoCE failed on {}{}: {} (status {}).", who.text(),
                  peers.size() == 0 ? "" : fmt::format(", with {}", peers.text()), meaning_of_status(status), status);
  if (others > 0) {
    finding.evidence.push_back(
        {"log_line", others, "completions with other numbers, of which 5 only follows from an earlier error", {}});
  }
  finding.remedy =
      "look on both ends whether the other process still ran then, at the state and the errors of the ports (ibstat, "
      "perfquery, rdma statistic) and at their cables and switches; of RoCE also at flow control and NCCL_IB_GID_INDEX";
  return finding;
}

}  // namespace stalltrace::analysis
