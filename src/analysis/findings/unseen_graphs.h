// SPDX-License-Identifier: Apache-2.0
// CUDA graphs that may run collectives which nothing reports: the probes see the calls that were captured and the
// launches of graphs, and only the profiler plugin what those run.
#pragma once

#include "analysis/timeline/cluster.h"
#include "analysis/timeline/timeline.h"
#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Notes the ranks that launched graphs in the judged range, and of which no profiler file reported a call by a graph
/// since: those whose collectives were captured, and those that may have captured some before tracing began. Sets
/// Report::unseen_graphs, and adds it to the notes.
Status note_unseen_graphs(EventSource& source, const Cluster& cluster, const Timeline& timeline, Report& report);

}  // namespace stalltrace::analysis
