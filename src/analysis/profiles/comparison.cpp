// SPDX-License-Identifier: Apache-2.0
#include "analysis/profiles/comparison.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/profiles/instances.h"
#include "base/numbers/median.h"

namespace stalltrace::analysis {
namespace {

using ClassKey = std::tuple<CommHash, Operation, std::optional<int64_t>, std::optional<int32_t>>;

struct ClassSamples {
  std::vector<int64_t> late_ns;
  std::vector<int64_t> transfer_ns;
  std::vector<int64_t> total_ns;
};

std::map<ClassKey, ClassTimes> times_by_class(const JobView& job, TimeRange range, bool by_communicator) {
  std::map<ClassKey, ClassSamples> samples;
  Instance instance;
  for (uint32_t index = 0; index < job.timeline().groups().size(); ++index) {
    const Group& group = job.timeline().groups()[index];
    for_each_instance(job.timeline(), index, instance, [&] {
      const InstanceTimes times = times_of(job, instance);
      if (!range.contains(times.first_arrival_ns) || !times.transfer_ns || times.warming_up) {
        return;
      }
      ClassSamples& own = samples[{by_communicator ? group.hash : 0, times.op, times.bytes,
                                   by_communicator ? std::nullopt : group.nranks}];
      own.late_ns.push_back(times.late_ns);
      own.transfer_ns.push_back(*times.transfer_ns);
      own.total_ns.push_back(times.total_ns);
    });
  }
  std::map<ClassKey, ClassTimes> classes;
  for (auto& [key, own] : samples) {
    classes[key] = {.instances = static_cast<int64_t>(own.total_ns.size()),
                    .late_ns = median(own.late_ns),
                    .transfer_ns = median(own.transfer_ns),
                    .total_ns = median(own.total_ns)};
  }
  return classes;
}

/// How much more the instances of `b` took than they would have taken with the median of `a`.
double extra_ns(const ComparedClass& compared) {
  return static_cast<double>(compared.b.total_ns - compared.a.total_ns) * static_cast<double>(compared.b.instances);
}

}  // namespace

std::vector<ComparedClass> compare(const JobView& a, TimeRange range_a, const JobView& b, TimeRange range_b,
                                   bool by_communicator) {
  std::map<ClassKey, ComparedClass> classes;
  for (const auto& [key, times] : times_by_class(a, range_a, by_communicator)) {
    classes[key].a = times;
  }
  for (const auto& [key, times] : times_by_class(b, range_b, by_communicator)) {
    classes[key].b = times;
  }
  std::vector<ComparedClass> compared;
  for (auto& [key, both] : classes) {
    std::tie(both.hash, both.op, both.bytes, both.nranks) = key;
    compared.push_back(both);
  }
  const auto in_both = [](const ComparedClass& one) { return one.a.instances > 0 && one.b.instances > 0; };
  std::ranges::stable_sort(compared, [&](const ComparedClass& one, const ComparedClass& other) {
    return std::pair(!in_both(one), -extra_ns(one)) < std::pair(!in_both(other), -extra_ns(other));
  });
  return compared;
}

}  // namespace stalltrace::analysis
