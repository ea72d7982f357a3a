// SPDX-License-Identifier: Apache-2.0
#include "blackbox/session.h"

#include <algorithm>
#include <span>
#include <utility>

#include "blackbox/decode/communicator.h"
#include "blackbox/decode/process.h"

namespace stalltrace::blackbox {
namespace {

constexpr size_t kMostApiCalls = 2048;
constexpr size_t kMostHeldCalls = 65536;

bool is_api_call(const st_box_event& event) { return event.type == ST_BOX_COLL_API || event.type == ST_BOX_P2P_API; }
bool is_launch(const st_box_event& event) { return event.type == ST_BOX_COLL || event.type == ST_BOX_P2P; }
bool is_step(const st_box_event& event) { return event.type == ST_BOX_PROXY_STEP || event.type == ST_BOX_PROXY_OP; }

}  // namespace

Result<ProfilerSession> ProfilerSession::open(const std::string& path, Keep keep) {
  ST_ASSIGN(ProfilerFileReader reader, ProfilerFileReader::open(path));
  return ProfilerSession(std::move(reader), keep);
}

Status ProfilerSession::read(uint64_t now_ns, const ReadBounds& bounds) {
  ST_ASSIGN(ProfilerFileContents contents, reader_.read(bounds));
  if (!contents.open_parts && contents.header.communicators_made != header_.communicators_made) {
    ST_ASSIGN(contents.communicators, reader_.read_communicators());
  }
  header_ = contents.header;
  has_writer_ = contents.has_writer;
  drained_ = contents.drained;
  unread_ = contents.unread;
  read_open_parts_ = contents.open_parts;
  learn_communicators(std::move(contents.communicators));
  count_progress(contents);
  file_losses_.raise_to(file_losses(contents));
  note_time(last_heartbeat(header_, now_ns), now_ns);
  for (const auto* events : {&contents.ended, &contents.open}) {
    std::ranges::for_each(*events, [&](const st_box_event& event) { note_activity(event, now_ns); });
  }
  open_calls_.clear();
  open_steps_.clear();
  if (keep_ == Keep::kAll) {
    events_.add(contents);
    ended_calls_.clear();
    ended_steps_.clear();
    for (const auto& [id, entry] : events_.entries()) {
      learn(entry.event, entry.open);
    }
  } else if (keep_ == Keep::kNewCalls) {
    std::ranges::for_each(contents.ended, [&](const st_box_event& event) { learn_news(event, false); });
    std::ranges::for_each(contents.open, [&](const st_box_event& event) { learn_news(event, true); });
  }
  return {};
}

void ProfilerSession::learn_communicators(std::vector<st_box_communicator> table) {
  if (table.empty()) {
    return;
  }
  for (const st_box_communicator& entry : table) {
    const auto known = communicators_.find(entry.serial);
    if (known == communicators_.end() || known->second.destroyed_ns != entry.destroyed_ns) {
      changed_communicators_.push_back(entry.serial);
    }
    communicators_[entry.serial] = entry;
  }
  table_ = std::move(table);
  // The writer reuses entries of ended communicators: those that left the table are kept while there is room. Where
  // calls still name one that was forgotten, they are counted when they are taken.
  std::erase_if(communicators_, [&](const auto& known) {
    return communicators_.size() > header_.communicator_capacity &&
           std::ranges::none_of(table_, [&](const auto& entry) { return entry.serial == known.first; });
  });
}

void ProfilerSession::note_time(uint64_t time_ns, uint64_t now_ns) {
  last_active_ns_ = time_ns <= now_ns ? std::max(last_active_ns_, time_ns) : last_active_ns_;
}

void ProfilerSession::note_activity(const st_box_event& event, uint64_t now_ns) {
  note_time(event.start_ns, now_ns);
  note_time(event.end_ns, now_ns);
  if (event.type == ST_BOX_PROXY_STEP) {
    note_time(event.u.proxy_step.state_since_ns, now_ns);
  }
}

void ProfilerSession::count_progress(const ProfilerFileContents& contents) {
  progress_.completed += static_cast<uint64_t>(
      std::ranges::count_if(std::span(contents.ended).first(contents.ended_in_ring),
                            [](const st_box_event& event) { return is_launch(event) && event.end_ns != 0; }));
  if (!read_open_parts_) {
    return;
  }
  progress_.open = 0;
  progress_.oldest_open_ns.reset();
  for (const st_box_event& event : contents.open) {
    if (is_launch(event) && !end_unobserved(event)) {
      ++progress_.open;
      progress_.oldest_open_ns = std::min(progress_.oldest_open_ns.value_or(event.start_ns), event.start_ns);
    }
  }
}

/// An ended event may be in the ring and in its slot, and one with an unobserved end stays in its slot for long: each
/// is delivered when its end differs from the last one.
void ProfilerSession::learn_news(const st_box_event& event, bool open) {
  open = open && !(is_launch(event) && event.end_ns == 0 && end_unobserved(event));
  if (!open && (is_launch(event) || is_step(event))) {
    if (const uint64_t* end_ns = ends_.find(event.id); end_ns != nullptr && *end_ns == event.end_ns) {
      return;
    }
    ends_.put(event.id, event.end_ns);
  }
  learn(event, open);
}

void ProfilerSession::learn(const st_box_event& event, bool open) {
  if (is_step(event)) {
    (open ? open_steps_ : ended_steps_).push_back(event);
  } else if (keep_ == Keep::kAll || is_launch(event)) {
    learn_call(event, open);
  } else if (is_api_call(event) && !open) {
    keep_api_call(event);
  }
}

void ProfilerSession::learn_call(const st_box_event& event, bool open) {
  if (open) {
    open_calls_.push_back(event);
  } else if (keep_ == Keep::kAll || ended_calls_.size() < kMostHeldCalls) {
    ended_calls_.push_back(event);
  } else {
    own_losses_.add(kLostHeldCalls);
  }
}

void ProfilerSession::keep_api_call(const st_box_event& event) {
  events_.add(event, false);
  api_calls_.push_back(event.id);
  if (api_calls_.size() > kMostApiCalls) {
    events_.erase(api_calls_.front());
    api_calls_.pop_front();
    forgot_api_calls_ = true;
  }
}

LossCounts ProfilerSession::losses() const {
  LossCounts losses = file_losses_;
  losses.add(own_losses_);
  losses.add(kLostDoubledSteps, steps_.doubled_steps());
  return losses;
}

const st_box_communicator* ProfilerSession::communicator(uint64_t serial) const {
  const auto found = communicators_.find(serial);
  return found == communicators_.end() ? nullptr : &found->second;
}

void ProfilerSession::count_unknown_communicator(const st_box_event& ended) {
  if (ended.communicator != 0 && communicator(ended.communicator) == nullptr) {
    own_losses_.add(kLostForgottenCommunicators);
  }
}

int32_t ProfilerSession::nodes_of(uint64_t hash) const {
  const auto found = std::ranges::find_if(communicators_, [&](const auto& known) { return known.second.hash == hash; });
  return found == communicators_.end() ? 0 : found->second.nodes;
}

std::vector<Communicator> ProfilerSession::take_communicators(const Owner& owner) {
  std::vector<Communicator> rows;
  for (const uint64_t serial : std::exchange(changed_communicators_, {})) {
    const st_box_communicator* entry = communicator(serial);
    if (auto row = entry != nullptr ? decode_communicator(*entry, owner) : std::nullopt) {
      rows.push_back(std::move(*row));
    }
  }
  return rows;
}

std::vector<ProfilerCall> ProfilerSession::take_calls(const Owner& owner, uint64_t before_ns) {
  std::vector<ProfilerCall> calls;
  calls.reserve(ended_calls_.size() + open_calls_.size());
  const auto add = [&](const st_box_event& event, bool open) {
    if (auto call = decode_call({event, open}, events_, communicator(event.communicator), owner)) {
      calls.push_back(std::move(*call));
      if (!open) {  // an open one comes again with each read
        count_unknown_communicator(event);
      }
    }
  };
  std::vector<st_box_event> later;
  for (const st_box_event& event : ended_calls_) {
    if (event.start_ns >= before_ns) {
      later.push_back(event);
      continue;
    }
    add(event, false);
    if (forgot_api_calls_ && event.parent != 0 && events_.find(event.parent) == nullptr) {
      own_losses_.add(kLostApiCalls);
    }
  }
  ended_calls_ = std::move(later);
  for (const st_box_event& event : open_calls_) {
    if (event.start_ns < before_ns) {
      add(event, true);
    }
  }
  number_in_call_order(calls);
  std::ranges::stable_sort(
      calls, {}, [](const ProfilerCall& call) { return std::pair(call.row.timestamp_ns, call.row.called_ns); });
  return calls;
}

std::vector<StepRow> ProfilerSession::take_steps(const Owner& owner) {
  std::vector<StepRow> rows;
  const auto add = [&](const st_box_event& event, std::optional<StepRow> row) {
    if (row) {
      rows.push_back(std::move(*row));
      count_unknown_communicator(event);
    }
  };
  const std::vector<st_box_event> ended = std::exchange(ended_steps_, {});
  for (const st_box_event& event : ended) {
    if (event.type == ST_BOX_PROXY_STEP) {
      add(event, steps_.ended_step(event, communicator(event.communicator), owner));
    }
  }
  for (const st_box_event& event : ended) {
    if (event.type == ST_BOX_PROXY_OP) {
      add(event, steps_.ended_operation(event, communicator(event.communicator), owner));
    }
  }
  return rows;
}

std::vector<StepRow> ProfilerSession::open_steps(const Owner& owner, uint64_t now_ns) const {
  return steps_.open_operations(
      open_steps_, now_ns, [this](uint64_t serial) { return communicator(serial); }, owner);
}

ProcessActivity ProfilerSession::activity(bool alive, int64_t clock_offset_ns) const {
  ProcessActivity activity{.alive = alive};
  const auto created_ns = to_utc(header_.created_ns, clock_offset_ns);
  activity.last_active_ns = to_utc(last_active_ns_, clock_offset_ns).value_or(created_ns.value_or(clock_offset_ns));
  for (const st_box_communicator& entry : table_) {
    if (entry.destroyed_ns == 0) {
      activity.has_open_communicator = true;
      if (entry.hash != 0) {
        activity.open.push_back(entry.hash);
      }
    }
  }
  for (const auto& [serial, entry] : communicators_) {
    const auto ended_ns = to_utc(entry.destroyed_ns, clock_offset_ns);
    if (entry.hash != 0 && ended_ns) {
      activity.ended.emplace_back(entry.hash, *ended_ns);
    }
  }
  return activity;
}

}  // namespace stalltrace::blackbox
