// SPDX-License-Identifier: Apache-2.0
#include "comm.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "debug.h"
#include "hash.h"
#include "result.h"

namespace lab::nccl {
namespace {

/// The stand-in's device addresses on the PCI bus.
int64_t bus_id(int device) { return static_cast<int64_t>(device + 1) << 12U; }

std::unique_ptr<ncclComm> new_comm(int rank, int nranks, int device, const std::string& name) {
  auto comm = std::make_unique_for_overwrite<ncclComm>();  // value-initialised, all of its memory would be written
  comm->rank = rank;
  comm->nranks = nranks;
  comm->device = device;
  comm->bus_id = bus_id(device);
  comm->name = name;
  return comm;
}

/// Starts the proxy thread and sends one byte around the ring, so that an unusable ring fails here and not in a
/// collective.
ncclResult_t start_proxy(ncclComm* comm, uint64_t magic, Links::Listeners listeners, std::vector<SocketAddress> peers) {
  comm->proxy =
      std::make_unique<Proxy>(comm->rank, comm->nranks, comm->device,
                              Links(comm->rank, magic, std::move(listeners), std::move(peers)), comm->profiler.get());
  Operation connect;
  connect.function = Function::kConnect;
  connect.comm = comm;
  const std::shared_ptr<WorkQueue>& queue = comm->proxy->queue();
  const auto plan = std::make_shared<Plan>(std::vector{connect}, queue, 0);
  queue->push(plan);
  queue->wake();
  while (!plan->wait_for(std::chrono::milliseconds(50))) {
    NCCL_TRY(comm->proxy->async_error());
  }
  info(kInit, "Connected all rings");
  return ncclSuccess;
}

/// LAB_NCCL_SHM=1: what ranks of one node send each other does not go over TCP, as with NCCL's shared memory. It is off
/// by default, so that ranks on one host can stand for ranks on several.
bool sends_locally() {
  const char* text = std::getenv("LAB_NCCL_SHM");
  return text != nullptr && std::strcmp(text, "1") == 0;
}

/// Ranks with the same address share a node.
int count_nodes(const std::vector<SocketAddress>& peers) {
  std::set<std::string> hosts;
  for (const SocketAddress& peer : peers) {
    const std::string text = to_text(peer);
    hosts.insert(text.substr(0, text.rfind('<')));
  }
  return static_cast<int>(hosts.size());
}

/// Exchanges the data listeners' addresses over the control ring, then starts the profiler, if there is one, and the
/// proxy.
ncclResult_t connect_ranks(ncclComm* comm, uint64_t magic) {
  Links::Listeners listeners;
  std::vector<SocketAddress> peers(static_cast<size_t>(comm->nranks));
  SocketAddress& own = peers[static_cast<size_t>(comm->rank)];
  NCCL_TRY(listen_on(comm->interface, &listeners.tcp, &own));
  if (sends_locally()) {
    NCCL_TRY(listen_locally(own, &listeners.local));
  }
  NCCL_TRY(comm->bootstrap->all_gather(peers.data(), sizeof(SocketAddress)));
  comm->profiler = Profiler::open(
      {.hash = comm->hash, .name = comm->name, .nodes = count_nodes(peers), .ranks = comm->nranks, .rank = comm->rank});
  comm->memory.begin(comm->hash, comm->rank, comm->nranks, comm->device);
  return start_proxy(comm, magic, std::move(listeners), std::move(peers));
}

/// Each parent rank's contribution to a split.
struct SplitRecord {
  int32_t color;
  int32_t key;
  int32_t parent_rank;
  SocketAddress control;  // the listener for the new control ring
};

/// The members of one colour, in the order of their new ranks.
std::vector<SplitRecord> members_of(std::vector<SplitRecord> records, int color) {
  std::erase_if(records, [&](const SplitRecord& record) { return record.color != color; });
  std::ranges::stable_sort(records, {},
                           [](const SplitRecord& record) { return std::pair(record.key, record.parent_rank); });
  return records;
}

ncclResult_t init_child(ncclComm* child, const ncclComm* parent, uint64_t magic, const Socket& control,
                        const std::vector<SplitRecord>& members) {
  const SocketAddress& next = members[static_cast<size_t>((child->rank + 1) % child->nranks)].control;
  child->interface = parent->interface;
  NCCL_TRY(Bootstrap::from_listener(magic, control, next, child->rank, child->nranks, child->abort, &child->bootstrap));
  return connect_ranks(child, magic);
}

}  // namespace

ncclResult_t init_rank(const char* caller, int nranks, const ncclUniqueId& id, int rank, int device,
                       const std::string& name, ncclComm_t* result) {
  BootstrapHandle handle{};
  std::memcpy(&handle, &id, sizeof(handle));
  const auto family = handle.root.any.sa_family;
  if (family != AF_INET && family != AF_INET6) {
    NCCL_WARN("%s : the unique id was not made by ncclGetUniqueId", caller);
    return ncclInvalidArgument;
  }
  auto comm = new_comm(rank, nranks, device, name);
  comm->hash = id_hash(id.internal, sizeof(id.internal));
  const auto log = [&](const char* state) {
    info(kInit, "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %lx commId 0x%llx - Init %s", caller,
         static_cast<void*>(comm.get()), rank, nranks, device, device, static_cast<unsigned long>(comm->bus_id),
         static_cast<unsigned long long>(comm->hash), state);
  };
  NCCL_TRY(find_interface(&comm->interface));
  info(kInit | kNet, "NET/Socket : Using [0]%s:%s", comm->interface.name.c_str(),
       to_text(comm->interface.address).c_str());
  info(kInit | kNet, "Using network Socket");
  log("START");
  NCCL_TRY(Bootstrap::from_root(handle, comm->interface, rank, nranks, comm->abort, &comm->bootstrap));
  NCCL_TRY(connect_ranks(comm.get(), handle.magic));
  if (nranks > 1) {
    NCCL_TRY(Ras::start(comm->interface, *comm->bootstrap, rank, nranks, comm->abort, &comm->ras));
  }
  log("COMPLETE");
  *result = comm.release();
  return ncclSuccess;
}

ncclResult_t split(ncclComm_t parent, int color, int key, const std::string& name, ncclComm_t* result) {
  const int number = ++parent->split_count;
  Socket control;
  std::vector<SplitRecord> records(static_cast<size_t>(parent->nranks));
  SplitRecord& own = records[static_cast<size_t>(parent->rank)];
  own = {.color = color, .key = key, .parent_rank = parent->rank, .control = {}};
  NCCL_TRY(listen_on(parent->interface, &control, &own.control));
  NCCL_TRY(parent->bootstrap->all_gather(records.data(), sizeof(SplitRecord)));
  *result = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) {
    return ncclSuccess;
  }
  const std::vector<SplitRecord> members = members_of(records, color);
  const auto self = std::ranges::find(members, parent->rank, &SplitRecord::parent_rank);
  auto child =
      new_comm(static_cast<int>(self - members.begin()), static_cast<int>(members.size()), parent->device, name);
  child->hash = IdHash()
                    .add(&parent->hash, sizeof(parent->hash))
                    .add(&number, sizeof(number))
                    .add(&color, sizeof(color))
                    .digest();
  const auto log = [&](const char* state) {
    info(kInit,
         "ncclCommSplit comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %lx parent %p splitCount %d color %d "
         "key %d - Init %s",
         static_cast<void*>(child.get()), child->rank, child->nranks, child->device, child->device,
         static_cast<unsigned long>(child->bus_id), static_cast<void*>(parent), number, color, key, state);
  };
  log("START");
  NCCL_TRY(init_child(child.get(), parent, child->hash, control, members));
  log("COMPLETE");
  *result = child.release();
  return ncclSuccess;
}

ncclResult_t check_comm(ncclComm_t comm, const char* caller) {
  if (comm == nullptr) {
    NCCL_WARN("%s : %s argument is NULL", caller, "comm");
    return ncclInvalidArgument;
  }
  if (!comm->memory.is_valid()) {
    NCCL_WARN("Error: corrupted comm object detected");
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

void drain(ncclComm_t comm) {
  comm->proxy->queue()->wait_idle([comm] { return comm->proxy->async_error() != ncclSuccess; });
}

void destroy_comm(ncclComm_t comm, bool abort) {
  if (abort) {
    comm->abort = true;
  } else {
    drain(comm);
  }
  comm->proxy.reset();
  info(kInit, "comm %p rank %d nranks %d cudaDev %d busId %lx - %s COMPLETE", static_cast<void*>(comm), comm->rank,
       comm->nranks, comm->device, static_cast<unsigned long>(comm->bus_id), abort ? "Abort" : "Destroy");
  comm->profiler.reset();
  comm->memory.end();
  delete comm;
}

}  // namespace lab::nccl
