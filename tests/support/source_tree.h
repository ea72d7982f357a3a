// SPDX-License-Identifier: Apache-2.0
// Where the sources are, for tests that read pages or test data. One file alone is compiled with the folder's name, so
// that a clone in another folder takes all others from the compiler's cache.
#pragma once

#include <string>
#include <string_view>

namespace stalltrace {

/// The absolute path of `relative` ("docs/recording.md"); without it, of the root of the sources, without a slash at
/// the end.
std::string source_path(std::string_view relative = {});

}  // namespace stalltrace
