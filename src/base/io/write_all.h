// SPDX-License-Identifier: Apache-2.0
// Writing all of a text, of which write(2) may take a part.
#pragma once

#include <string_view>

namespace stalltrace {

/// Goes on after parts and interruptions. False: errno has the reason, and a part may be written. For descriptors that
/// block: it does not wait for one that is full. Allocates nothing; async-signal-safe.
///
/// Several processes that write one pipe: what has up to PIPE_BUF bytes stays together, of more the others' may come in
/// between.
[[nodiscard]] bool write_all(int fd, std::string_view bytes) noexcept;

}  // namespace stalltrace
