// SPDX-License-Identifier: Apache-2.0
// Whose files count as ours: this user's, and those of the user who called us through sudo. Any thread.
#pragma once

#include <sys/types.h>

#include <optional>

namespace stalltrace {

struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
};

/// The user who called this root process through sudo (SUDO_UID, SUDO_GID); nullopt without sudo.
std::optional<Caller> sudo_caller();

/// Whether this user gains nothing by replacing our files: root, ourselves, the user who called us through sudo, and
/// the owners of our program and of the folders above it, who could replace the program. In a user namespace also the
/// owner id that stands for users outside it, since no process inside has that id.
bool is_trusted_owner(uid_t uid);

/// Gives an open file or folder of ours to the user who called us through sudo; never one with another owner, nor a
/// file with a second name. False if that was wanted and failed.
bool hand_to_caller(int fd);

}  // namespace stalltrace
