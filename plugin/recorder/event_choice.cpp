// SPDX-License-Identifier: Apache-2.0
#include "plugin/recorder/event_choice.h"

#include <strings.h>

#include <cstddef>
#include <cstring>

#include "plugin/abi/events.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::plugin {
namespace {

struct Choice {
  const char* name;
  uint32_t nccl;
  uint32_t kept;
};

constexpr uint32_t bit(st_box_type type) { return 1U << type; }

constexpr Choice kChoices[] = {
    {"group", nccl::kEventGroup, bit(ST_BOX_GROUP)},
    {"coll", nccl::kEventColl, bit(ST_BOX_COLL)},
    {"p2p", nccl::kEventP2p, bit(ST_BOX_P2P)},
    {"proxyop", nccl::kEventProxyOp, bit(ST_BOX_PROXY_OP)},
    {"waits", nccl::kEventProxyStep, 0},  // summed in the proxy operation; recorded while open
    {"proxystep", nccl::kEventProxyStep, bit(ST_BOX_PROXY_STEP)},
    {"proxyctrl", nccl::kEventProxyCtrl, bit(ST_BOX_PROXY_CTRL)},
    {"kernel", nccl::kEventKernelCh, 0},  // ends the collective; recorded while open
    {"kernelch", nccl::kEventKernelCh, bit(ST_BOX_KERNEL_CHANNEL)},
    {"net", nccl::kEventNetPlugin, bit(ST_BOX_NET)},
    {"groupapi", nccl::kEventGroupApi, bit(ST_BOX_GROUP_API)},
    {"api", nccl::kEventCollApi | nccl::kEventP2pApi, bit(ST_BOX_COLL_API) | bit(ST_BOX_P2P_API)},
    {"launch", nccl::kEventKernelLaunch, bit(ST_BOX_KERNEL_LAUNCH)},
    {"ce", nccl::kEventCeColl, bit(ST_BOX_CE_COLL)},
    {"cesync", nccl::kEventCeSync, bit(ST_BOX_CE_SYNC)},
    {"cebatch", nccl::kEventCeBatch, bit(ST_BOX_CE_BATCH)},
};
constexpr const char* kDefault = "coll,p2p,proxyop,waits,kernel,api,groupapi,ce";

bool is_name(const char* text, size_t length, const char* name) {
  return strlen(name) == length && strncasecmp(text, name, length) == 0;
}

/// Adds the events of one name; false for an unknown name.
bool choose(const char* text, size_t length, EventMask* choice) {
  const bool all = is_name(text, length, "all");
  bool known = all || length == 0 || is_name(text, length, "none");
  if (is_name(text, length, "default")) {
    const EventMask usual = parse_events(kDefault);
    choice->nccl_mask |= usual.nccl_mask;
    choice->kept_mask |= usual.kept_mask;
    return true;
  }
  for (const Choice& row : kChoices) {
    if (all || is_name(text, length, row.name)) {
      choice->nccl_mask |= row.nccl;
      choice->kept_mask |= row.kept;
      known = true;
    }
  }
  return known;
}

}  // namespace

EventMask parse_events(const char* text) {
  if (text == nullptr || *text == '\0') {
    text = kDefault;
  }
  EventMask choice;
  while (true) {
    const size_t length = strcspn(text, ",");
    choice.understood &= choose(text, length, &choice);
    if (text[length] == '\0') {
      break;
    }
    text += length + 1;
  }
  if (choice.nccl_mask != 0) {
    choice.kept_mask |= bit(ST_BOX_COLL) | bit(ST_BOX_P2P);  // NCCL reports them anyway: the others are parts of them
  }
  return choice;
}

}  // namespace stalltrace::plugin
