// SPDX-License-Identifier: Apache-2.0
#include "lab/simulation/program.h"

#include <algorithm>

namespace stalltrace::simulation {
namespace {

constexpr int64_t kBucket = 6'553'600;       // float32: DDP's default of 25 MiB
constexpr int64_t kUnit = 8'388'608;         // of FSDP, whole
constexpr int64_t kActivations = 4'194'304;  // of a micro batch in one layer

using Kind = Instruction::Kind;

class StepProgram {
 public:
  StepProgram(const JobOptions& options, const Layout& layout, int rank, const StepLoad& load)
      : options_(options), layout_(layout), position_(layout.positions[static_cast<size_t>(rank)]), load_(load) {}

  std::vector<Instruction> make() {
    switch (options_.program) {
      case Program::kReplicas:
        replicas();
        break;
      case Program::kShards:
        shards();
        break;
      case Program::kMesh:
        mesh();
        break;
    }
    out_.push_back({.kind = Kind::kSynchronise});
    return std::move(out_);
  }

 private:
  void launch(double ms) { out_.push_back({.kind = Kind::kCpu, .ms = ms * load_.cpu}); }
  void device(double ms, int needs = -1) {
    out_.push_back({.kind = Kind::kDevice, .ms = ms * load_.device, .needs = needs});
  }
  /// Returns its index, for those that need it.
  int collective(int group, Operation op, int64_t count, bool after_device = true) {
    out_.push_back({.kind = Kind::kCollective, .group = group, .op = op, .count = count, .after_device = after_device});
    return static_cast<int>(out_.size()) - 1;
  }
  [[nodiscard]] int64_t size_of(int group) const {
    return static_cast<int64_t>(layout_.groups[static_cast<size_t>(group)].ranks.size());
  }

  void replicas() {
    for (int micro = 0; micro < options_.micro_batches; ++micro) {
      for (int unit = 0; unit < options_.units; ++unit) {
        launch(options_.launch_ms * options_.forward_ms / options_.backward_ms);
        device(options_.forward_ms / options_.units);
      }
      for (int unit = 0; unit < options_.units; ++unit) {
        begin_unit(micro == 0 ? unit : -1);
        launch(options_.launch_ms);
        device(options_.backward_ms / options_.units);
        if (micro + 1 == options_.micro_batches) {
          collective(layout_.world, Operation::kAllReduce, kBucket);
        }
      }
    }
    out_.push_back({.kind = Kind::kJoin});
    device(2);  // the optimizer
  }

  void shards() {
    const int64_t part = kUnit / size_of(layout_.world);
    for (const bool backward : {false, true}) {
      int gathered = collective(layout_.world, Operation::kAllGather, part, false);
      for (int unit = 0; unit < options_.units; ++unit) {
        begin_unit(backward ? unit : -1);
        launch(options_.launch_ms);
        const int needs = gathered;
        if (unit + 1 < options_.units) {
          gathered = collective(layout_.world, Operation::kAllGather, part, false);
        }
        device((backward ? options_.backward_ms : options_.forward_ms) / options_.units, needs);
        if (backward) {
          collective(layout_.world, Operation::kReduceScatter, part);
        }
      }
    }
    out_.push_back({.kind = Kind::kJoin});
    device(2);
  }

  /// To the experts or back; one rank alone has them all.
  void send_tokens() {
    if (position_.tensor_group >= 0) {
      collective(position_.tensor_group, Operation::kAllToAll, kActivations / size_of(position_.tensor_group));
    }
  }

  /// One stage's part of a micro batch.
  void pass(int micro, bool backward) {
    const int layers = std::max(1, options_.units / options_.stages);
    const double ms = (backward ? options_.backward_ms : options_.forward_ms) / options_.units;
    const bool last = micro + 1 == options_.micro_batches;
    for (int layer = 0; layer < layers; ++layer) {
      launch(options_.launch_ms);
      const size_t index = static_cast<size_t>((backward ? layers : 0) + layer);
      const double work = index < load_.experts.size() ? load_.experts[index] : 1;
      if (options_.experts) {
        send_tokens();
        device(ms * work);
        send_tokens();
      } else {
        device(ms);
        if (position_.tensor_group >= 0) {
          collective(position_.tensor_group, Operation::kAllReduce, kActivations);
        }
      }
      if (backward && last && position_.data_group >= 0) {
        collective(position_.data_group, Operation::kAllReduce, kBucket);
      }
    }
  }

  void exchange(std::vector<Instruction::Peer> peers) {
    if (!peers.empty()) {
      launch(0.05);
      out_.push_back({.kind = Kind::kExchange,
                      .group = position_.pipeline_group,
                      .op = Operation::kSend,
                      .count = kActivations,
                      .peers = std::move(peers)});
    }
  }

  /// One forward, one backward: a stage sends and receives together, as Megatron does.
  void mesh() {
    const bool first = position_.stage == 0;
    const bool last = position_.stage + 1 == options_.stages;
    const auto from_before = [&] { return std::vector<Instruction::Peer>{{false, position_.stage - 1}}; };
    const auto from_behind = [&] { return std::vector<Instruction::Peer>{{false, position_.stage + 1}}; };
    const int ahead = std::min(options_.stages - 1 - position_.stage, options_.micro_batches);
    for (int micro = 0; micro < ahead; ++micro) {
      exchange(first ? std::vector<Instruction::Peer>{} : from_before());
      pass(micro, false);
      exchange({{true, position_.stage + 1}});
    }
    const int rest = options_.micro_batches - ahead;
    if (rest > 0 && !first) {
      exchange(from_before());
    }
    for (int i = 0; i < rest; ++i) {
      pass(ahead + i, false);
      if (!last) {
        exchange({{true, position_.stage + 1}, {false, position_.stage + 1}});
      }
      pass(i, true);
      std::vector<Instruction::Peer> peers;
      if (!first) {
        peers.push_back({true, position_.stage - 1});
        if (i + 1 < rest) {
          peers.push_back({false, position_.stage - 1});
        }
      }
      exchange(std::move(peers));
    }
    for (int i = rest; i < options_.micro_batches; ++i) {
      exchange(from_behind());
      pass(i, true);
      if (!first) {
        exchange({{true, position_.stage - 1}});
      }
    }
    out_.push_back({.kind = Kind::kJoin});
    collective(layout_.world, Operation::kAllReduce, 2);  // the norm of all gradients
    out_.push_back({.kind = Kind::kJoin});
    device(2);
  }

  void begin_unit(int unit) {
    if (unit >= 0) {
      out_.push_back({.kind = Kind::kUnit, .unit = unit});
    }
  }

  const JobOptions& options_;
  const Layout& layout_;
  const Layout::Position& position_;
  const StepLoad& load_;
  std::vector<Instruction> out_;
};

}  // namespace

Layout Layout::of(const JobOptions& options) {
  Layout layout;
  const int ranks = options.ranks();
  const bool mesh = options.program == Program::kMesh;
  const int tensor = mesh ? options.tensor : 1;
  const int stages = mesh ? options.stages : 1;
  const int data = ranks / (tensor * stages);
  layout.positions.resize(static_cast<size_t>(ranks));
  const auto add = [&](int count, auto rank_of, bool on_main_stream) {
    Group group{.on_main_stream = on_main_stream};
    for (int i = 0; i < count; ++i) {
      group.ranks.push_back(rank_of(i));
    }
    layout.groups.push_back(std::move(group));
    return static_cast<int>(layout.groups.size()) - 1;
  };
  layout.world = add(
      ranks, [](int i) { return i; }, mesh);
  const auto rank_at = [=](int t, int d, int s) { return t + tensor * (d + data * s); };
  for (int s = 0; s < stages; ++s) {
    for (int d = 0; d < data; ++d) {
      for (int t = 0; t < tensor; ++t) {
        Position& position = layout.positions[static_cast<size_t>(rank_at(t, d, s))];
        position.stage = s;
        position.data_index = d;
      }
    }
  }
  const auto enter = [&](int group, int Position::*member) {
    for (const int rank : layout.groups[static_cast<size_t>(group)].ranks) {
      layout.positions[static_cast<size_t>(rank)].*member = group;
    }
  };
  for (int s = 0; mesh && s < stages; ++s) {
    for (int d = 0; tensor > 1 && d < data; ++d) {
      enter(add(
                tensor, [&](int t) { return rank_at(t, d, s); }, true),
            &Position::tensor_group);
    }
    for (int t = 0; data > 1 && t < tensor; ++t) {
      enter(add(
                data, [&](int d) { return rank_at(t, d, s); }, false),
            &Position::data_group);
    }
  }
  for (int d = 0; stages > 1 && d < data; ++d) {
    for (int t = 0; t < tensor; ++t) {
      enter(add(
                stages, [&](int s) { return rank_at(t, d, s); }, false),
            &Position::pipeline_group);
    }
  }
  return layout;
}

std::vector<Instruction> program_of(const JobOptions& options, const Layout& layout, int rank, const StepLoad& load) {
  return StepProgram(options, layout, rank, load).make();
}

}  // namespace stalltrace::simulation
