// SPDX-License-Identifier: Apache-2.0
#include "store/findings.h"

#include <fmt/format.h>

#include "model/json/evidence_json.h"
#include "store/schema/bind.h"
#include "store/schema/finding_table.h"
#include "store/schema/known_schema.h"
#include "store/schema/open_recording.h"
#include "store/schema/schema.h"
#include "store/schema/select.h"

namespace stalltrace::store {
namespace {

/// The columns of `finding` as plain values: binding and reading share one list.
struct FindingRow {
  int64_t finding_id = 0;
  std::string cause;
  std::string severity;
  double confidence = 0;
  std::optional<std::string> culprit_node;
  std::optional<int32_t> culprit_rank;
  std::optional<int32_t> culprit_pid;
  std::optional<int32_t> src_rank;
  std::optional<int32_t> dst_rank;
  std::optional<std::string> src;
  std::optional<std::string> dst;
  CommHash comm_id_hash = 0;
  Operation op = Operation::kAllReduce;
  int64_t collectives_affected = 0;
  double stall_ms = 0;
  std::optional<int64_t> from_ns;
  std::optional<int64_t> to_ns;
  std::string summary;
  std::string evidence;
  std::string remedy;
  std::optional<int64_t> detected_ns;
  std::optional<int64_t> ended_ns;
  std::optional<int64_t> attempt;
};

template <RowOf<FindingRow> Row, typename F>
void each_column(Row& r, F&& f) {
  f("finding_id", r.finding_id);
  f("cause", r.cause);
  f("severity", r.severity);
  f("confidence", r.confidence);
  f("culprit_node", r.culprit_node);
  f("culprit_rank", r.culprit_rank);
  f("culprit_pid", r.culprit_pid);
  f("src_rank", r.src_rank);
  f("dst_rank", r.dst_rank);
  f("src", r.src);
  f("dst", r.dst);
  f("comm_id_hash", or_null(r.comm_id_hash));
  f("op", r.op);
  f("collectives_affected", r.collectives_affected);
  f("stall_ms", r.stall_ms);
  f("from_ns", r.from_ns);
  f("to_ns", r.to_ns);
  f("summary", r.summary);
  f("evidence", r.evidence);
  f("remedy", r.remedy);
  f("detected_ns", r.detected_ns);
  f("ended_ns", r.ended_ns);
  f("attempt", r.attempt);
}

std::optional<std::string> endpoint_text(const std::optional<Endpoint>& endpoint) {
  return endpoint ? std::optional(format_endpoint(*endpoint)) : std::nullopt;
}

std::optional<Endpoint> endpoint_from_text(const std::optional<std::string>& text) {
  return text ? parse_endpoint(*text) : std::nullopt;
}

FindingRow to_row(const Finding& finding, int64_t id) {
  const TimeRange open;
  FindingRow row{.finding_id = id,
                 .cause = std::string(to_text(finding.cause)),
                 .severity = std::string(to_text(finding.severity)),
                 .confidence = finding.confidence,
                 .comm_id_hash = finding.comm_id_hash,
                 .op = finding.op,
                 .collectives_affected = finding.collectives_affected,
                 .stall_ms = finding.stall_ms,
                 .summary = finding.summary,
                 .evidence = evidence_to_text(finding.evidence),
                 .remedy = finding.remedy,
                 .detected_ns = finding.detected_ns,
                 .ended_ns = finding.ended_ns,
                 .attempt = finding.attempt};
  if (finding.culprit) {
    row.culprit_rank = finding.culprit->rank;
    if (finding.culprit->pid != 0) {
      row.culprit_pid = finding.culprit->pid;
    }
    if (finding.culprit->pid != 0 || !finding.culprit->rank) {  // a process, or a node
      row.culprit_node = finding.culprit->node;
    }
  }
  if (finding.link) {
    row.src_rank = finding.link->src_rank;
    row.dst_rank = finding.link->dst_rank;
    row.src = endpoint_text(finding.link->src);
    row.dst = endpoint_text(finding.link->dst);
  }
  if (finding.window.from_ns != open.from_ns) {
    row.from_ns = finding.window.from_ns;
  }
  if (finding.window.to_ns != open.to_ns) {
    row.to_ns = finding.window.to_ns;
  }
  return row;
}

Finding from_row(const FindingRow& row) {
  Finding finding;
  finding.cause = cause_from_text(row.cause).value_or(Cause::kUnknown);
  finding.severity = severity_from_text(row.severity).value_or(Severity::kMedium);
  finding.confidence = row.confidence;
  if (row.culprit_node) {
    finding.culprit = Culprit{*row.culprit_node, row.culprit_rank, row.culprit_pid.value_or(0)};
  }
  if (row.src_rank || row.dst_rank || row.src || row.dst) {
    finding.link = LinkEndpoints{row.src_rank, row.dst_rank, endpoint_from_text(row.src), endpoint_from_text(row.dst)};
  }
  finding.comm_id_hash = row.comm_id_hash;
  finding.op = row.op;
  finding.collectives_affected = row.collectives_affected;
  finding.stall_ms = row.stall_ms;
  finding.window.from_ns = row.from_ns.value_or(finding.window.from_ns);
  finding.window.to_ns = row.to_ns.value_or(finding.window.to_ns);
  finding.summary = row.summary;
  finding.evidence = evidence_from_text(row.evidence);
  finding.remedy = row.remedy;
  finding.detected_ns = row.detected_ns;
  finding.ended_ns = row.ended_ns;
  finding.attempt = row.attempt;
  return finding;
}

Result<Statement> prepare_upsert(Database& db) {
  std::string columns;
  std::string values;
  const FindingRow names;
  each_column(names, [&](const char* name, const auto& /*field*/) {
    columns += (columns.empty() ? "" : ", ") + std::string(name);
    values += values.empty() ? "?" : ", ?";
  });
  return db.prepare(fmt::format("INSERT OR REPLACE INTO finding({}) VALUES({})", columns, values));
}

int upsert(Statement& statement, const FindingRow& row) {
  each_column(row, Binder(statement.get(), 1));
  const int code = statement.step();
  statement.reset();
  return code;
}

}  // namespace

Status FindingTable::prepare(Database& db) {
  ST_ASSIGN(upsert_, prepare_upsert(db));
  return {};
}

void FindingTable::accept(int64_t finding_id, Finding finding) {
  rows_.insert_or_assign(finding_id, std::move(finding));
}

int FindingTable::write() {
  for (const auto& [id, finding] : rows_) {
    if (const int code = upsert(upsert_, to_row(finding, id)); code != SQLITE_DONE) {
      return code;
    }
  }
  return SQLITE_DONE;
}

Result<std::vector<Finding>> read_findings(const std::string& path) {
  ST_ASSIGN(Database db, open_for_reading(path));
  std::vector<std::string> names;
  FindingRow row;
  each_column(row, [&](const char* name, const auto& /*field*/) { names.emplace_back(name); });
  ST_ASSIGN(const std::string sql, select_sql(db, "finding", names));
  ST_ASSIGN(Statement select, db.prepare(sql + " ORDER BY 1"));
  std::vector<Finding> findings;
  int code = SQLITE_DONE;
  while ((code = select.step()) == SQLITE_ROW) {
    extract(select, row);
    findings.push_back(from_row(row));
  }
  if (code != SQLITE_DONE) {
    return with_context(path, fail_sqlite(db.get(), "findings").error());
  }
  return findings;
}

}  // namespace stalltrace::store
