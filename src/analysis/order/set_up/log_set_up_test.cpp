// SPDX-License-Identifier: Apache-2.0
// What NCCL's log has of set-ups and of transfers that failed, as rows.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "analysis/order/set_up/transfer_errors.h"
#include "analysis/testing/golden_text.h"
#include "analysis/testing/small_job.h"
#include "base/clock.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kSetUpBegin = int64_t{20'000} * 86'400 * kNsPerSecond;

/// A job of ranks on two hosts; each test gives the rows.
struct SetUpLog {
  MemorySource source;
  int64_t rows = 0;
  int32_t nranks = 4;

  SetUpLog() {
    for (const NodeId id : {1, 2}) {
      Node node{.node_id = id, .name = fmt::format("node{}", id), .agent_version = "nccl_log"};
      node.hostname = node.name;
      node.started_ns = kSetUpBegin;
      node.missing_evidence = kLacksDurations;
      source.accept(node);
    }
  }

  void say(int32_t rank, LogKind kind, std::string text) {
    LogLine row{.node_id = static_cast<NodeId>(1 + rank / 2), .timestamp_ns = kSetUpBegin + ++rows, .pid = 100 + rank};
    row.kind = kind;
    row.line = rows;
    row.file = "job.log";
    row.text = std::move(text);
    source.accept(std::move(row));
  }
  void set_up(int32_t rank, bool ended) {
    Collective row;
    row.node_id = static_cast<NodeId>(1 + rank / 2);
    row.event_id = make_event_id(row.node_id, static_cast<uint64_t>(++rows));
    row.op = Operation::kCommInitRank;
    row.timestamp_ns = kSetUpBegin + rows;
    row.completion = ended ? Completion::kCall : Completion::kOpen;
    row.duration_ns = ended ? std::optional<int64_t>(1) : std::nullopt;
    row.rank = rank;
    row.nranks = nranks;
    row.comm_id_hash = 77;
    row.comm_ptr = 16;
    row.pid = 100 + rank;
    source.accept(row);
  }
  Report explained() { return small_job::report_of(source); }
  Finding only() {
    const Report report = explained();
    EXPECT_EQ(report.findings.size(), 1U);
    return report.findings.empty() ? Finding() : report.findings[0];
  }
};

TEST(LogSetUp, AnAddressThatIsNotReachedInTheWordsOfEachVersion) {
  for (const std::string_view words :
       {"Call to connect to 192.0.2.7<4545> failed : Connection refused",
        "socketStartConnect: Connect to 192.0.2.7<4545> failed : Software caused connection abort"}) {
    SetUpLog log;
    log.say(0, LogKind::kInterface, "NET/Socket : Using [0]eth0:192.0.2.1<0>");
    log.say(0, LogKind::kWarning, std::string(words));
    const Finding finding = log.only();
    EXPECT_EQ(finding.cause, Cause::kInitFailure) << words;
    EXPECT_TRUE(finding.summary.contains("192.0.2.7:4545")) << finding.summary;
  }
}

/// A connection that there was breaks during the job as well.
TEST(LogSetUp, AConnectionThatBrokeIsOfASetUpWhereOneHadBegun) {
  for (const bool begun : {false, true}) {
    SetUpLog log;
    log.say(0, LogKind::kInterface, "NET/Socket : Using [0]eth0:192.0.2.1<0>");
    if (begun) {
      log.set_up(0, false);
    }
    log.say(0, LogKind::kWarning, "Call to recv from 192.0.2.7<4545> failed : Connection reset by peer");
    const Report report = log.explained();
    const bool found = std::ranges::any_of(report.findings, [](const Finding& finding) {
      return finding.cause == Cause::kInitFailure && finding.severity == Severity::kCritical;
    });
    EXPECT_EQ(found, begun);
  }
}

TEST(LogSetUp, ARankThatDoesNotComeToTheSetUp) {
  SetUpLog log;
  for (const int32_t rank : {0, 1, 3}) {
    log.set_up(rank, false);
  }
  const Finding finding = log.only();
  EXPECT_EQ(finding.cause, Cause::kInitFailure);
  EXPECT_EQ(finding.severity, Severity::kWaiting);
  EXPECT_FALSE(finding.culprit);
  expect_golden_text("init_failure: a rank is missing in the logs", finding);
}

TEST(LogSetUp, ASetUpThatEndsOnSomeRanksOrOnNone) {
  SetUpLog some;
  SetUpLog none;
  for (const int32_t rank : {0, 1, 2, 3}) {
    some.set_up(rank, rank != 2);
    none.set_up(rank, false);
  }
  expect_golden_text("init_failure: one rank does not end", some.only());
  expect_golden_text("init_failure: no rank ends", none.only());
}

TEST(LogSetUp, SetUpsThatEndAreHealthyAndDamagedLogsShowNothing) {
  SetUpLog log;
  for (const int32_t rank : {0, 1, 3}) {
    log.set_up(rank, true);
  }
  EXPECT_TRUE(log.explained().findings.empty());
  SetUpLog cut;
  cut.set_up(0, false);
  cut.say(0, LogKind::kCut, "Init ST");
  const Report report = cut.explained();
  EXPECT_TRUE(report.findings.empty());
  golden::expect_text(fmt::format("{}", fmt::join(report.notes, "\n")));
}

TEST(LogSetUp, AWarningNamesAllWhoPrintedIt) {
  SetUpLog log;
  for (const int32_t rank : {0, 1, 2, 3}) {
    log.say(rank, LogKind::kWarning, "Cuda failure 'invalid argument'");
  }
  log.say(3, LogKind::kWarning, "Cuda failure 'invalid argument'");
  golden::expect_text(fmt::format("{}", fmt::join(log.explained().notes, "\n")));
}

TEST(LogSetUp, AnErrorThatAFunctionReturnedIsNamedWhereNothingElseIs) {
  SetUpLog log;
  log.say(0, LogKind::kWarning, "misc/socket.cc:564 -> 2");
  log.say(1, LogKind::kWarning, "misc/socket.cc:564 -> 2");
  log.say(1, LogKind::kWarning, "Cuda failure 'invalid argument'");
  golden::expect_text(fmt::format("{}", fmt::join(log.explained().notes, "\n")));
}

TEST(LogSetUp, TransfersThatFailed) {
  SetUpLog log;
  log.say(0, LogKind::kWarning,
          "NET/IB : Got completion from peer 192.0.2.9<4545> with status=12 opcode=0 len=0 vendor err 129 (Recv)");
  log.say(2, LogKind::kWarning, "NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129");
  log.say(2, LogKind::kWarning, "NET/IB : Got completion with error 5, opcode 1, len 0, vendor err 249");
  const Finding finding = log.only();
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_FALSE(finding.culprit);
  expect_golden_text("unknown: transfers over InfiniBand", finding);
  SetUpLog flushed;  // as at the end of a job
  flushed.say(0, LogKind::kWarning, "NET/IB : Got completion with error 5, opcode 1, len 0, vendor err 249");
  EXPECT_TRUE(flushed.explained().findings.empty());
}

TEST(LogSetUp, NumbersOfCompletions) {
  struct Form {
    std::string_view text;
    int32_t status;
    std::string_view peer;
  };
  for (const Form& form :
       {Form{"NET/IB: Got completion from peer 192.0.2.9<4> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=X(0)", 12,
             "192.0.2.9<4>"},
        Form{"NET/IB : Got completion with error 13, opcode 1", 13, ""},
        Form{"NET/IB : Got completion with status=, opcode (1)", 0, ""},
        Form{"NET/IB : Got async event : port error", 0, ""},
        Form{"Got completion from peer a<4> with status=12", 12, "a<4>"}}) {
    const auto error = transfer_error_in(form.text);
    EXPECT_EQ(error ? error->status : 0, form.status) << form.text;
    EXPECT_EQ(error ? error->peer : "", form.peer) << form.text;
  }
}

}  // namespace
}  // namespace stalltrace::analysis
