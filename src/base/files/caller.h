// SPDX-License-Identifier: Apache-2.0
// Whose files are ours: this user's, and those of the person who called us through sudo. Any thread.
#pragma once

#include <sys/types.h>

#include <optional>

namespace stalltrace {

struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
};

/// The user who called this root process through sudo (SUDO_UID, SUDO_GID); none where nobody did.
std::optional<Caller> sudo_caller();

/// Whether this user may exchange our files without gaining anything: root, ourselves, who called us through sudo, and
/// who owns our program or a folder above it, and so could exchange that. In a user namespace also the owner that
/// stands for users outside it, since no process in it has that id.
bool is_trusted_owner(uid_t uid);

/// Gives an open file or folder of ours to who called us through sudo. Never anything of another owner, nor a file with
/// a second name. False where that was wanted and failed.
bool hand_to_caller(int fd);

}  // namespace stalltrace
