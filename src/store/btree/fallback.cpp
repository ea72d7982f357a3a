// SPDX-License-Identifier: Apache-2.0
#include "store/btree/fallback.h"

namespace stalltrace::store {

std::string_view to_text(Fallback fallback) {
  switch (fallback) {
    case Fallback::kNone:
      return "none";
    case Fallback::kOpenFile:
      return "the file was not closed";
    case Fallback::kTableLayout:
      return "a table declared in another way";
    case Fallback::kRefused:
      return "the file could not be opened again";
    case Fallback::kFileHeader:
      return "a file header that is not the usual one";
    case Fallback::kPageTree:
      return "a page that is not where or what it should be";
    case Fallback::kSpilledRow:
      return "a row too large for its page";
    case Fallback::kRecord:
      return "a row whose header does not fit its size";
    case Fallback::kValueType:
      return "a value of an unexpected type";
  }
  return "unknown";
}

}  // namespace stalltrace::store
